"""The node that writes a story in a form to show, to print or to train on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ...backend.errors import JournalError, SettingsError
from ...backend.exporters import EXPORTERS, export_by_name, options_of
from ...backend.exporters.layout.typesetting import font_note
from ...backend.files.atomic import replace_folder, scratch_folder, writing
from ...backend.report.words import ENGLISH, LANGUAGES
from ...backend.types import Trajectory
from .. import host
from ..inputs.connected import TRAJECTORY, check_connected
from ..inputs.sockets import CATEGORY, TrajectorySocket
from ..inputs.validation import in_range
from .incomplete import incomplete_line, shown_incomplete

FORMATS = {
    "page (HTML)": "page",
    "PDF": "pdf",
    "comic (CBZ)": "comic",
    "GIF": "gif",
    "WebP": "webp",
    "contact sheet (PNG)": "sheet",
    "Markdown": "markdown",
    "execution record (JSON)": "record",
    "story for programs (JSON)": "story",
    "story to share (ZIP)": "zip",
    "comic (PDF)": "comic-pdf",
    "comic pages (PNG)": "comic-png",
}
DRAWN = ("pdf", "comic", "comic-pdf", "comic-png", "gif", "webp", "sheet")
"""Exports whose text is drawn here, in a font of this machine."""
AS_THE_INTERFACE = "as the interface"
"""The browser puts its language in place of it (web/exports.js); a program that sends it has English."""
PICTURES = (".png", ".gif", ".webp")


class Export(io.ComfyNode):
    """Writes a story as a page, PDF, comic archive, moving picture, sheet, Markdown or record."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveExport",
            display_name="Export",
            category=CATEGORY,
            description="Writes a story below the output folder: as a web page, PDF, comic archive, moving "
            "picture, contact sheet, Markdown, data record, or as one file to share. Nothing is ever "
            "overwritten.",
            search_aliases=["save story", "pdf", "comic", "cbz", "gif", "animated webp", "html", "markdown"],
            is_output_node=True,
            inputs=[
                TrajectorySocket.Input("trajectory", tooltip="From a Critic Loop or Load Trajectory."),
                io.Combo.Input(
                    "format",
                    options=list(formats()),
                    default="page (HTML)",
                    tooltip="A page and a PDF hold everything in one file; a comic archive is for comic "
                    "readers; Markdown, the record and the story for programs are folders with their "
                    "images beside the text; a story to share is all of it in one file, which Load "
                    "Trajectory opens.",
                ),
                io.String.Input(
                    "filename_prefix",
                    default="interleave-thinker/export/story",
                    tooltip="Name of the file, with sub-folders before it; a number is added. "
                    "%date:yyyy-MM-dd%, %year%, %month%..., and %Node.widget% are filled in.",
                ),
                io.Float.Input(
                    "seconds",
                    default=2.0,
                    min=0.1,
                    max=60.0,
                    step=0.1,
                    tooltip="Seconds that a GIF or WebP shows a step.",
                ),
                io.Boolean.Input(
                    "attempts",
                    default=False,
                    tooltip="A GIF or WebP shows every try, not only the kept image.",
                ),
                io.Boolean.Input(
                    "audience",
                    default=False,
                    optional=True,
                    tooltip="For an audience: texts and kept images alone, without verdicts, tries, prompts "
                    "and names of steps. Records, the story for programs and the story to share stay whole.",
                ),
                io.String.Input(
                    "title",
                    default="",
                    optional=True,
                    tooltip="Title of a page, PDF, comic or Markdown; empty takes the beginning of the "
                    "request. A sheet, GIF or WebP shows it only if you write one.",
                ),
                io.Int.Input(
                    "panels",
                    default=4,
                    min=1,
                    max=9,
                    optional=True,
                    tooltip="Images on a page of a comic, at most.",
                ),
                io.Combo.Input(
                    "lettering",
                    options=["captions", "balloons", "none"],
                    default="captions",
                    optional=True,
                    tooltip="Text of a comic: below the images, what is in quotation marks in balloons, or "
                    "none.",
                ),
                io.Combo.Input(
                    "language",
                    options=[AS_THE_INTERFACE, *LANGUAGES],
                    default=AS_THE_INTERFACE,
                    optional=True,
                    tooltip="Language of the export's own words (Step, accepted, Made by...); the story "
                    "stays as it was written.",
                ),
            ],
            outputs=[io.String.Output("path", tooltip="The file that was written.")],
        )

    @classmethod
    def validate_inputs(cls, filename_prefix: str | None = None) -> bool | str:
        return host.prefix_fault(filename_prefix)

    @classmethod
    def execute(
        cls, trajectory: Trajectory, format: str, filename_prefix: str, **options: Any
    ) -> io.NodeOutput:
        check_connected("Export", TRAJECTORY, trajectory=trajectory)
        known = formats()
        if format not in known:
            raise SettingsError(f"There is no format {format!r}.", f"Known: {', '.join(known)}.")
        in_range("Export", 0.1, 60, seconds=options["seconds"])
        in_range("Export", 1, 9, panels=options.get("panels", 1))
        kind = known[format]
        if options.get("language") == AS_THE_INTERFACE:
            options["language"] = ENGLISH
        options["metadata"] = host.graph_metadata(cls.hidden)
        name = host.new_name(filename_prefix, cls.hidden, image_size(trajectory))
        path = write_export(trajectory, kind, name, options)
        notes = (incomplete_line(trajectory), font_note(trajectory) if kind in DRAWN else "")
        note = " · ".join(filter(None, notes))
        host.NodeProgress().say(f"saved: {path}\n{note}".strip())
        return io.NodeOutput(str(path), ui=display_of(path, kind) | shown_incomplete(trajectory))


def formats() -> dict[str, str]:
    """Return the exports by what the node calls them; those of installed plug-ins have their own names."""
    return FORMATS | {name: name for name in EXPORTERS.plugins if name not in FORMATS}


def image_size(trajectory: Trajectory) -> tuple[int, int]:
    """Width and height in pixels of the first kept image, for the name of a file; (0, 0) without one."""
    return next((result.image.size for result in trajectory.results if result.image), (0, 0))


def display_of(path: Path, kind: str) -> dict[str, Any]:
    """What the node shows of an export: its path, a link to it, and the image if it is one."""
    saved = host.saved_file(path)
    shown: dict[str, Any] = {
        "text": (str(path),),
        "interleave_files": ({**saved, "format": kind, "url": host.view_link(saved)},),
    }
    if path.suffix in PICTURES:
        shown |= {"images": [saved], "animated": (path.suffix == ".webp",)}
    return shown


def write_export(trajectory: Trajectory, kind: str, name: host.NewName, options: dict[str, Any]) -> Path:
    """Export to a new name: an export of one file becomes that file, one of several a folder. Returns the
    main file.

    Of the options those are used that this kind takes. Raises SettingsError and JournalError; then nothing is
    left behind.
    """
    known = options_of(kind)
    options = {option: value for option, value in options.items() if option in known}
    with scratch_folder(name.folder, JournalError, "Export") as made:
        main = export_by_name(kind, trajectory, made, **options)
        if len(list(made.iterdir())) == 1:
            path = name.file(main.suffix)
            with writing(path, JournalError, "Export") as temporary:
                os.rename(main, temporary)
            return path
        replace_folder(made, name.file(), JournalError, "Export")
        return name.file() / main.name

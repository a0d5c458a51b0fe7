"""Nodes that show a story on one sheet, and export it to print, share or process it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from comfy_api.latest import io

from ...backend.core.errors import JournalError, SettingsError
from ...backend.core.files.atomic import replace_folder, scratch_folder, writing
from ...backend.core.types import Trajectory
from ...backend.output.exporters import EXPORTERS, export_by_name, options_of
from ...backend.output.exporters.sheet import contact_sheet
from ...backend.output.exporters.typesetting import font_note
from ...backend.output.live.browser_requests import AskRun, known_run
from ...backend.output.live.live_messages import MessagePart, waiting_in_display
from ...backend.output.report.export_options import ENGLISH, LANGUAGES
from ...backend.story.journal.archive import WORKFLOW, run_files
from ...backend.story.loop.policy import waiting_of
from ...backend.story.loop.replay import load_trajectory
from .. import host
from ..inputs.images import to_batch
from ..inputs.run_folder import PARENT
from ..inputs.sockets import TRAJECTORY, TrajectorySocket, check_connected, node_schema
from ..inputs.validation import check_library, in_range
from .saved_runs import find_choice, incomplete_line, shown_incomplete

FORMATS = {
    "page (HTML)": "page",
    "PDF": "pdf",
    "picture book (PDF)": "book",
    "EPUB e-book": "epub",
    "comic (CBZ)": "comic",
    "GIF": "gif",
    "WebP": "webp",
    "video (MP4)": "mp4",
    "contact sheet (PNG)": "sheet",
    "Markdown": "markdown",
    "execution record (JSON)": "record",
    "story for programs (JSON)": "story",
    "story to share (ZIP)": "zip",
    "comic (PDF)": "comic-pdf",
    "comic pages (PNG)": "comic-png",
}
PDF = ("pdf", "book", "comic-pdf")
"""Exports that need fpdf2 and fonttools, which ComfyUI does not bring."""
DRAWN = ("pdf", "book", "comic", "comic-pdf", "comic-png", "gif", "webp", "mp4", "sheet")
"""Exports whose text is rendered here, in a font of this machine."""
AS_THE_INTERFACE = "as the interface"
"""The browser replaces it with its language (web/exports.js). Sent by a program, it means English."""
PREVIEWED = (".png", ".gif", ".webp", ".mp4")
"""Endings of files that the host shows on the node."""


class Export(io.ComfyNode):
    """Exports a story as a page, PDF, book, comic, animation, video, sheet, Markdown, data or an archive."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveExport",
            is_output_node=True,
            hidden=[io.Hidden.unique_id],
            shown=("format", "title"),
            inputs=[
                TrajectorySocket.Input("trajectory"),
                io.Combo.Input("format", options=list(formats()), default="page (HTML)"),
                io.String.Input("filename_prefix", default="interleave-thinker/export/story"),
                io.Float.Input("seconds", default=2.0, min=0.1, max=60.0, step=0.1),
                io.Boolean.Input("attempts", default=False),
                io.Boolean.Input("audience", default=False, optional=True),
                io.String.Input("title", default="", optional=True),
                io.Int.Input("panels", default=4, min=1, max=9, optional=True),
                io.Combo.Input(
                    "lettering",
                    options=["captions", "balloons", "none", "shots"],
                    default="captions",
                    optional=True,
                ),
                io.Combo.Input(
                    "language",
                    options=[AS_THE_INTERFACE, *LANGUAGES],
                    default=AS_THE_INTERFACE,
                    optional=True,
                ),
            ],
            outputs=[io.String.Output("path")],
        )

    @classmethod
    def validate_inputs(cls, filename_prefix: str | None = None) -> bool | str:
        """Check inputs before anything runs."""
        return host.prefix_fault(filename_prefix)

    @classmethod
    def execute(
        cls, trajectory: Trajectory, format: str, filename_prefix: str, **options: Any
    ) -> io.NodeOutput:
        """Export the story."""
        check_connected("Export", TRAJECTORY, trajectory=trajectory)
        known = formats()
        if format not in known:
            raise SettingsError(
                f"Unknown export format {format[:40]!r}.", f"Choose one of: {', '.join(known)}."
            )
        in_range("Export", 0.1, 60, seconds=options["seconds"])
        in_range("Export", 1, 9, panels=options.get("panels", 1))
        if held := held_back(trajectory, 1):
            return held
        kind = known[format]
        if options.get("language") == AS_THE_INTERFACE:
            options["language"] = ENGLISH
        options["metadata"] = metadata_of(cls.hidden, kind)
        name = host.new_name(filename_prefix, image_size(trajectory))
        path = write_export(trajectory, kind, name, options)
        notes = (incomplete_line(trajectory), font_note(trajectory) if kind in DRAWN else "")
        note = " · ".join(filter(None, notes))
        host.NodeProgress().say(f"saved: {path}\n{note}".strip())
        return io.NodeOutput(str(path), ui=display_of(path, kind) | shown_incomplete(trajectory))


def story_roots() -> dict[str, Path]:
    """Return the folders that are searched for stories, by their name in the list."""
    return {"output": host.output_folder(), "input": host.input_folder()}


def metadata_of(hidden: io.HiddenHolder | None, kind: str) -> dict[str, str]:
    """Return the running graph for an export; the graph that made the story, for a ZIP of a loaded one."""
    metadata = host.graph_metadata(hidden)
    if kind != "zip" or hidden is None or not metadata:
        return metadata
    graph = hidden.prompt or {}
    node = graph.get(str(hidden.unique_id), {})
    while isinstance(link := node.get("inputs", {}).get("trajectory"), list):
        node = graph.get(str(link[0]), {})
    if node.get("class_type") != "InterleaveLoadTrajectory":
        return metadata
    place = find_choice(node["inputs"]["story"], story_roots())
    made = None if place.suffix == ".json" else run_files(place).read(WORKFLOW)
    return {"workflow": made.decode()} if made else {}


def held_back(trajectory: Trajectory, outputs: int) -> io.NodeOutput | None:
    """Return empty outputs for a node that writes a story, if the story waits for the user's decision."""
    waiting = waiting_of(trajectory)
    if waiting is None:
        return None
    host.NodeProgress().say("Nothing is written while the story waits for a decision.")
    return io.NodeOutput(*[host.nothing()] * outputs, ui=waiting_in_display(waiting))


def formats() -> dict[str, str]:
    """Return the exports by their names on the node. Plug-in exports keep their own names."""
    return FORMATS | {name: name for name in EXPORTERS.plugins if name not in FORMATS}


def image_size(trajectory: Trajectory) -> tuple[int, int]:
    """Return width and height in pixels of the first kept image, for file names; (0, 0) without one."""
    return next((result.image.size for result in trajectory.results if result.image), (0, 0))


def display_of(path: Path, kind: str) -> dict[str, Any]:
    """Return the node's display of an export: its path, a link, and the image if it is one."""
    saved = host.saved_file(path)
    shown: dict[str, Any] = {
        "text": (str(path),),
        "interleave_files": ({**saved, "format": kind, "url": host.view_link(saved)},),
    }
    if path.suffix in PREVIEWED:
        shown |= {"images": [saved], "animated": (path.suffix in (".webp", ".mp4"),)}
    return shown


def write_export(trajectory: Trajectory, kind: str, name: host.NewName, options: dict[str, Any]) -> Path:
    """Export a story to a new name: a single file becomes that file, several become a folder.

    If it fails, nothing is left on disk.

    Args:
        trajectory: The story.
        kind: Name of the export.
        name: Where to write it.
        options: Options of the exports; those that this export does not know are ignored.

    Returns:
        Path of the main file.

    Raises:
        SettingsError: An option is not valid, or a library is missing.
        JournalError: The file cannot be written.
    """
    if kind in PDF:
        for library in ("fpdf2", "fonttools"):
            check_library(library)
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


class AskTakeaway(AskRun):
    """Request to write a run as a film (MP4) or a picture book (PDF), from the live view."""

    to: Literal["film", "book"]
    language: str = ENGLISH


class SavedFile(MessagePart):
    """Address of a written file, for the host's /view."""

    filename: str
    subfolder: str
    type: str


def takeaway(asked: AskTakeaway) -> SavedFile:
    """Write a run as a file with an unused name."""
    trajectory = load_trajectory(known_run(host.output_folder() / PARENT, asked.run))
    name = host.new_name(f"{PARENT}/export/{asked.to}")
    kind = {"film": "mp4"}.get(asked.to, asked.to)
    return SavedFile(**host.saved_file(write_export(trajectory, kind, name, {"language": asked.language})))


def export_routes() -> list[host.Route]:
    """Return the route of the live view's exports."""
    return [host.Route("POST", "/interleave-thinker/takeaway", AskTakeaway, takeaway)]


class Storyboard(io.ComfyNode):
    """Lays out a story on one sheet: every step with its image and text."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveStoryboard",
            is_output_node=True,
            shown=("show",),
            inputs=[
                TrajectorySocket.Input("trajectory"),
                io.Combo.Input("show", options=["chosen", "attempts", "audience"], default="chosen"),
                io.Int.Input("columns", default=0, min=0, max=100),
                io.Int.Input("cell", default=320, min=48, max=2048, step=16),
                io.Boolean.Input("captions", default=True),
            ],
            outputs=[io.Image.Output("sheet")],
        )

    @classmethod
    def execute(
        cls,
        trajectory: Trajectory,
        show: Literal["chosen", "attempts", "audience"],
        columns: int,
        cell: int,
        captions: bool,
    ) -> io.NodeOutput:
        """Lay out the sheet."""
        check_connected("Storyboard", TRAJECTORY, trajectory=trajectory)
        in_range("Storyboard", 0, 100, columns=columns)
        in_range("Storyboard", 48, 2048, cell=cell)
        notes = (incomplete_line(trajectory), font_note(trajectory) if captions else "")
        host.NodeProgress().say(" · ".join(filter(None, notes)))
        sheet = to_batch(contact_sheet(trajectory, columns or None, cell, show, captions))
        return io.NodeOutput(sheet, ui=host.shown_images([sheet], cls) | shown_incomplete(trajectory))

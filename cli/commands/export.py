"""`interleave-thinker export`: writes a run, finished or not, in a form to publish, share or train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...backend.errors import SettingsError
from ...backend.execution_record.reader import FILE_NAME
from ...backend.exporters import export_by_name, options_of
from ...backend.loop.replay import is_record, load_trajectory
from ...backend.report.export_options import LANGUAGES


def command(
    folder: Annotated[
        Path,
        typer.Argument(help="The --out folder of a run, the .zip file of a story, or an execution record."),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="Format: page (HTML), pdf, book (picture book as PDF), epub (e-book), comic (CBZ), "
            "comic-pdf, comic-png, gif, webp, mp4, markdown, sheet (PNG contact sheet), record or story "
            "(JSON), or zip (the whole run in one file).",
        ),
    ] = "page",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Output folder. Default: the run folder, or a folder next to the .zip file."
        ),
    ] = None,
    audience: Annotated[
        bool,
        typer.Option(
            "--audience",
            help="Export only the texts and the final images, without verdicts, rejected attempts, prompts "
            "and names "
            "of steps.",
        ),
    ] = False,
    title: Annotated[str | None, typer.Option(help="Title. Default: the beginning of the request.")] = None,
    language: Annotated[
        str | None, typer.Option(help=f"Language of the labels in the export: {', '.join(LANGUAGES)}.")
    ] = None,
    panels: Annotated[int | None, typer.Option(help="Comic: images per page, 1 to 9. Default: 4.")] = None,
    lettering: Annotated[
        str | None,
        typer.Option(help="Comic: captions, balloons, none, or shots (for a storyboard). Default: captions."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="gif and webp: seconds per step. Default: 2.")] = None,
    attempts: Annotated[bool, typer.Option("--attempts", help="gif and webp: show every attempt.")] = False,
    captions: Annotated[
        str | None, typer.Option(help="mp4: burned in, subtitles (a track) or none. Default: burned in.")
    ] = None,
    fade: Annotated[
        float | None, typer.Option(help="mp4: seconds of a cross-fade, 0 to 3. Default: 0.5.")
    ] = None,
    narration: Annotated[
        str | None, typer.Option(help="mp4: folder with a WAV file for each spoken step: 1.wav, 2.wav.")
    ] = None,
) -> None:
    """Write a run as a page, PDF, book, comic, animation, video, Markdown, sheet, record or .zip file.

    The run may be unfinished. Prints the path of the main file.
    """
    given: dict[str, Any] = {
        "audience": audience or None,
        "title": title,
        "language": language,
        "panels": panels,
        "lettering": lettering,
        "seconds": seconds,
        "attempts": attempts or None,
        "captions": captions,
        "fade": fade,
        "narration": narration,
    }
    options = {name: value for name, value in given.items() if value is not None}
    unknown = sorted(options.keys() - options_of(to))
    if unknown:
        supported = [f"--{name}" for name in given if name in options_of(to)]
        raise SettingsError(
            f"The format {to!r} does not support {' and '.join(f'--{name}' for name in unknown)}.",
            f"It supports: {', '.join(supported) or 'no options'}.",
        )
    record = folder if folder.is_file() else folder / FILE_NAME
    overwrites = out is None or (out / FILE_NAME).resolve() == record.resolve()
    if to == "record" and overwrites and is_record(folder):
        raise SettingsError(
            f"Exporting {str(folder)!r} as a record would overwrite it.", "Give another folder with --out."
        )
    own = folder.with_suffix("") if folder.is_file() else folder
    print(export_by_name(to, load_trajectory(folder), out or own, **options))

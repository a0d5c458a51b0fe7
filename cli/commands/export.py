"""`interleave-thinker export`: a run's folder, finished or not, as something to show or to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...backend.errors import SettingsError
from ...backend.execution_record.reader import FILE_NAME
from ...backend.exporters import export_by_name, options_of
from ...backend.loop.replay import is_record, load_trajectory
from ...backend.report.words import LANGUAGES


def command(
    folder: Annotated[
        Path,
        typer.Argument(help="The --out folder of a run, a story's .zip file, or an execution record."),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="page, pdf, comic (CBZ), comic-pdf, comic-png, gif, webp, markdown, sheet (PNG), "
            "record or story (JSON), or zip (the whole run as one file to share).",
        ),
    ] = "page",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder to write into; by default the run's own, or one beside the .zip file."
        ),
    ] = None,
    audience: Annotated[
        bool,
        typer.Option(
            "--audience", help="Texts and kept images alone: no verdicts, tries, prompts, names of steps."
        ),
    ] = False,
    title: Annotated[str | None, typer.Option(help="Title; by default the beginning of the request.")] = None,
    language: Annotated[
        str | None, typer.Option(help=f"Language of the export's own words: {', '.join(LANGUAGES)}.")
    ] = None,
    panels: Annotated[
        int | None, typer.Option(help="Images on a page of a comic, 1 to 9; 4 by default.")
    ] = None,
    lettering: Annotated[
        str | None, typer.Option(help="Text of a comic: captions (the default), balloons or none.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds a step, for gif and webp; 2 by default.")
    ] = None,
    attempts: Annotated[bool, typer.Option("--attempts", help="Every try, for gif and webp.")] = False,
) -> None:
    """Write a run as a page, PDF, comic, moving picture, Markdown, contact sheet, execution record, or as one
    file to share."""
    given: dict[str, Any] = {
        "audience": audience or None,
        "title": title,
        "language": language,
        "panels": panels,
        "lettering": lettering,
        "seconds": seconds,
        "attempts": attempts or None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    unknown = sorted(options.keys() - options_of(to))
    if unknown:
        raise SettingsError(
            f"{to} takes no {' and no '.join(f'--{name}' for name in unknown)}.",
            f"It takes: {', '.join(f'--{name}' for name in given if name in options_of(to)) or 'none'}.",
        )
    record = folder if folder.is_file() else folder / FILE_NAME
    overwrites = out is None or (out / FILE_NAME).resolve() == record.resolve()
    if to == "record" and overwrites and is_record(folder):
        raise SettingsError(
            f"Exporting {str(folder)!r} as a record would overwrite it.", "Name another folder with --out."
        )
    own = folder.with_suffix("") if folder.is_file() else folder
    print(export_by_name(to, load_trajectory(folder), out or own, **options))

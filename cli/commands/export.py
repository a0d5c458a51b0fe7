"""`interleave-thinker export`: a run's folder, finished or not, as something to show or to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.exporters import ANIMATIONS, export_by_name
from ...backend.loop.replay import load_trajectory


def command(
    folder: Annotated[Path, typer.Argument(help="The --out folder of a run, or a story's .zip file.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="page, pdf, comic (CBZ), gif, webp, markdown, sheet (PNG), record or story (JSON), or zip "
            "(the whole run as one file to share).",
        ),
    ] = "page",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder to write into; by default the run's own, or one beside the .zip file."
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds a step, for gif and webp; 2 by default.")
    ] = None,
    attempts: Annotated[bool, typer.Option("--attempts", help="Every try, for gif and webp.")] = False,
) -> None:
    """Write a run as a page, PDF, comic archive, moving picture, Markdown, contact sheet or execution
    record."""
    options: dict[str, float | bool] = {} if seconds is None else {"seconds": seconds}
    if attempts:
        options["attempts"] = True
    if options and to not in ANIMATIONS:
        raise SettingsError(
            f"{to} takes neither --seconds nor --attempts.", f"Only {', '.join(ANIMATIONS)} do."
        )
    own = folder.with_suffix("") if folder.is_file() else folder
    print(export_by_name(to, load_trajectory(folder), out or own, **options))

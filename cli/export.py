"""`interleave-thinker export`: a run's folder, finished or not, as something to show or to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..backend.exporters import export_by_name
from ..backend.journal import load_trajectory


def command(
    folder: Annotated[Path, typer.Argument(help="The --out folder of a run.")],
    to: Annotated[str, typer.Option("--to", help="page, markdown, sheet (PNG) or record (JSON).")] = "page",
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write into; by default the run's own.")
    ] = None,
) -> None:
    """Write a run as a self-contained page, Markdown, a contact sheet or an execution record."""
    print(export_by_name(to, load_trajectory(folder), out or folder))

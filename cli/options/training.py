"""Options that several stages of training share, and what they mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ...backend.shown_text import shown_text

TINYWORLD = "tinyworld:"


def existing_file(description: str) -> Any:
    """Return an option that takes a file which exists."""
    return typer.Option(help=description, exists=True, dir_okay=False)


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "--init",
        help="Checkpoint to start from: a Qwen3-VL folder, a hub id in the local cache, or tinyworld:critic.",
    ),
]
Download = Annotated[bool, typer.Option("--download", help="Fetch a hub id that is not in the cache.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used, counted and listed.")
]
Out = Annotated[Path, typer.Option(help="Folder of the run; the same folder again goes on.")]
Images = Annotated[
    Path | None,
    typer.Option(
        "--images",
        help=(
            "Folder below which the images of rows are looked for, too, by the end of their paths; empty: "
            "only beside the data file."
        ),
        exists=True,
        file_okay=False,
    ),
]
PageRows = Annotated[int, typer.Option(min=2, help="Rows, half of them about right pages.")]
PagesOf = Annotated[
    Path | None, typer.Option(help="Pipeline folder whose pages they are; empty: the shipped one.")
]
PageSeed = Annotated[int, typer.Option(min=0, help="Seed of the pages.")]


def checkpoint_of(model: str, download: bool) -> Path:
    """The folder that `--model` names; raises SettingsError or ChatError."""
    from ...backend.checkpoints.checkpoint import find_checkpoint

    if model.startswith(TINYWORLD):
        return folder_of(model)
    return find_checkpoint(model, download, untested=True)


def folder_of(model: str) -> Path:
    """The folder of a model that is on this machine; `tinyworld:ROLE` is a shipped one."""
    from ...tinyworld.runtime import checkpoint

    return checkpoint(model.removeprefix(TINYWORLD)) if model.startswith(TINYWORLD) else Path(model)


def log(line: str) -> None:
    """Say a line, in one process of several."""
    if os.environ.get("RANK", "0") == "0":
        typer.echo(shown_text(line))

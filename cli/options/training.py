"""Options that several training commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ...backend.shown_text import one_line, shown_text

TINYWORLD = "tinyworld:"
REFUSED = 3
"""Exit code if the gate refused a result."""


def existing_file(description: str) -> Any:
    """Return an option for an existing file."""
    return typer.Option(help=description, exists=True, dir_okay=False)


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "--init",
        help="Checkpoint to start from: a Qwen3-VL folder, a hub id in the local cache, tinyworld:critic, or "
        "for a planner tinyworld:planner.",
    ),
]
Download = Annotated[
    bool, typer.Option("--download", help="Download the hub id if it is not in the local cache.")
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad", help="Skip rows that cannot be used instead of stopping. They are counted and listed."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check everything, count tokens, and make three timed steps, from which time and memory follow. "
        "Nothing is written; generators and judges are really called.",
    ),
]
Out = Annotated[Path, typer.Option(help="Output folder of the training. Use the same folder to resume.")]
Images = Annotated[
    Path | None,
    typer.Option(
        "--images",
        help=(
            "Second place to look for the images of the rows, matched by the end of their paths. "
            "Default: only the folder of the data file."
        ),
        exists=True,
        file_okay=False,
    ),
]
PageRows = Annotated[int, typer.Option(min=2, help="Number of rows; half of them are about correct pages.")]
PagesOf = Annotated[
    Path | None, typer.Option(help="Pipeline folder of the generator. Default: the built-in one.")
]
PageSeed = Annotated[int, typer.Option(min=0, help="Random seed of the pages.")]


def checkpoint_of(model: str, download: bool) -> Path:
    """Return the folder of the checkpoint that `--model` names.

    Raises:
        SettingsError: The name is not valid.
        ChatError: The checkpoint cannot be found or downloaded.
    """
    from ...backend.checkpoints.checkpoint import find_checkpoint

    if model.startswith(TINYWORLD):
        return folder_of(model)
    return find_checkpoint(model, download, untested=True)


def folder_of(model: str) -> Path:
    """Return the folder of a local model; `tinyworld:ROLE` is a built-in one."""
    from ...tinyworld.runtime import checkpoint

    return checkpoint(model.removeprefix(TINYWORLD)) if model.startswith(TINYWORLD) else Path(model)


@contextmanager
def dry_run_if(asked: bool) -> Iterator[None]:
    """Make the trainings in the block dry runs if `--dry-run` is set."""
    if not asked:
        yield
        return
    from ...training.trainer.run import dry_runs

    with dry_runs():
        yield


def log(line: str) -> None:
    """Print a line; in distributed training only the first process prints."""
    if os.environ.get("RANK", "0") == "0":
        typer.echo(shown_text(line))


def refused(error: Exception) -> typer.Exit:
    """Print why the gate refused a result, and return the exit of the command."""
    typer.secho(f"Error: {one_line(str(error))}", fg="red", err=True)
    return typer.Exit(REFUSED)

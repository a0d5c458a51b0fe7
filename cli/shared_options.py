"""Options and small functions that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..backend.core.shown_text import one_line, shown_text
from ..training.from_runs.settings import EXACT

if TYPE_CHECKING:
    from ..training.from_runs.attempts import Oracle
    from ..training.trainer.model_loading import ModelTraining

Some = TypeVar("Some", bound="ModelTraining")

TINYWORLD = "tinyworld:"
REFUSED = 3
"""Exit code if the gate refused a result."""
SCORERS = "judge:CHAT, tinyworld or a plug-in"
"""Part of the help of options that choose a scorer."""


def existing_file(description: str) -> Any:
    """Return an option for an existing file."""
    return typer.Option(help=description, exists=True, dir_okay=False)


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunFolder = Annotated[Path, typer.Argument(help="The --out folder of a run.", exists=True, file_okay=False)]
InputImages = Annotated[
    list[Path] | None,
    typer.Option(
        "--image", metavar="FILE", help="Input image. Repeat it for several, in the order of the request."
    ),
]
Runs = Annotated[
    list[Path], typer.Argument(help="Run folders (--out of `run`), or folders that contain run folders.")
]
Score = Annotated[
    str | None,
    typer.Option(
        "--scorer", help=f"Scorer for images without a score: {SCORERS}. Default: they stay without one."
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad", help="Skip what cannot be used instead of stopping. It is counted and listed."
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        "--init",
        help="Checkpoint to start from: a Qwen3-VL folder, a hub id in the local cache, tinyworld:critic, or "
        "for a planner tinyworld:planner. A training continues an adapter's folder.",
    ),
]
Download = Annotated[
    bool, typer.Option("--download", help="Download the hub id if it is not in the local cache.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check everything, count tokens, and make three timed steps, from which time and memory follow. "
        "Nothing is written; generators and judges are really called.",
    ),
]
Out = Annotated[Path, typer.Option(help="Output folder. Use the same folder to resume.")]
Images = Annotated[
    Path | None,
    typer.Option(
        "--images",
        help="Second place to look for the images of the rows, matched by the end of their paths. "
        "Default: only the folder of the data file.",
        exists=True,
        file_okay=False,
    ),
]
Parallel = Annotated[
    int,
    typer.Option("--parallel", min=1, max=1024, help="Work done at the same time."),
]


def oracle_of(reasoning: str) -> Oracle | None:
    """Return the tiny world's oracle if exact reasoning is requested, otherwise None."""
    if reasoning != EXACT:
        return None
    from ..tinyworld.oracle import OracleCritic

    return OracleCritic()


def checkpoint_of(model: str, download: bool) -> Path:
    """Return the folder of the checkpoint that `--model` names.

    Raises:
        SettingsError: The name is not valid.
        ChatError: The checkpoint cannot be found or downloaded.
    """
    from ..backend.models.checkpoints.checkpoint import find_checkpoint

    return (
        folder_of(model) if model.startswith(TINYWORLD) else find_checkpoint(model, download, untested=True)
    )


def start_of(model: str, download: bool, settings: Some) -> tuple[Path, Some]:
    """Return the base model of a training that `--model` or its adapter names, and the training's settings.

    Raises:
        SettingsError: The name is not valid, the settings contradict each other, or a library is missing.
        ChatError: The checkpoint or the adapter cannot be found or used.
    """
    from ..training.trainer.model_loading import check_options, starting_from

    base, settings = starting_from(model, settings)
    check_options(settings)
    return checkpoint_of(base, download), settings


def folder_of(model: str) -> Path:
    """Return the folder of a local model; `tinyworld:ROLE` is a built-in one."""
    from ..tinyworld import checkpoint

    return checkpoint(model.removeprefix(TINYWORLD)) if model.startswith(TINYWORLD) else Path(model)


def trained(dry_run: bool, train: Callable[[], Path]) -> Path:
    """Return the checkpoint of a training, and print its folder; with `dry_run` it is only checked."""
    from ..training.trainer.progress import dry_runs

    if dry_run:
        with dry_runs():
            return train()
    made = train()
    log(f"checkpoint: {made}")
    return made


def log(line: str) -> None:
    """Print a line; in distributed training only the first process prints."""
    if os.environ.get("RANK", "0") == "0":
        typer.echo(shown_text(line))


def refused(error: Exception) -> typer.Exit:
    """Print why the gate refused a result, and return the exit of the command."""
    typer.secho(f"Error: {one_line(str(error))}", fg="red", err=True)
    return typer.Exit(REFUSED)

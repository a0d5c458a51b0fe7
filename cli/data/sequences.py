"""`data sequences`: trajectories as interleaved sequences for models that write and draw by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.shown_text import shown_text
from ..options.teachers import RayAddress, RowWorkers, RunsAtATime, open_executor_for


def command(
    *,
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs, or published ones with their records.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for sequences_easy.json, sequences_hard.json, images.")],
    published_quirks: Annotated[
        bool, typer.Option("--published-quirks", help="Close <plan> by <plan>, as published.")
    ] = False,
    guard: Annotated[
        Path | None, typer.Option(help="Index of benchmarks (`data guard`), of which nothing is taught.")
    ] = None,
    parallel: RunsAtATime = 1,
    ray: RayAddress = None,
    workers: RowWorkers = 2,
) -> None:
    """Write accepted trajectories as sequences: easy (as they ended) and hard (every attempt, criticised)."""
    from ...training.data.sequences.make import make_sequences

    executor = open_executor_for(runs, parallel, ray, workers)
    counts = make_sequences(
        runs, out, published_quirks, guard, lambda line: typer.echo(shown_text(line)), executor
    )
    typer.echo(f"\ndata: {', '.join(str(out / name) for name in counts)}")

"""`data sequences`: makes interleaved sequences for models that generate texts and images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.shown_text import shown_text
from ..options.teachers import RayAddress, RowWorkers, RunsAtATime, open_executor_for


def command(
    *,
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, or published folders with execution records.")
    ],
    out: Annotated[
        Path, typer.Option(help="Output folder for sequences_easy.json, sequences_hard.json and images.")
    ],
    published_quirks: Annotated[
        bool,
        typer.Option(
            "--published-quirks",
            help="As the published data: close <plan> with <plan>, and leave out the request's images.",
        ),
    ] = False,
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching items are left out.")
    ] = None,
    parallel: RunsAtATime = 1,
    ray: RayAddress = None,
    workers: RowWorkers = 2,
) -> None:
    """Write accepted trajectories as interleaved sequences.

    Easy sequences have the final images only, hard ones all attempts with their critiques.
    """
    from ...training.data.sequences.make import make_sequences

    executor = open_executor_for(runs, parallel, ray, workers)
    counts = make_sequences(
        runs, out, published_quirks, guard, lambda line: typer.echo(shown_text(line)), executor
    )
    typer.echo(f"\ndata: {', '.join(str(out / name) for name in counts)}")

"""`data filter`: makes critic rows from a teacher's trajectories, by the published rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.shown_text import shown_text
from ...training.data.from_runs.settings import FilterData
from ..options.models import with_model_options
from ..options.runs import SCORERS
from ..options.teachers import ImagesAtATime, RayAddress, Workers, open_executor


@with_model_options
def command(
    *,
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders (`data trajectories`), or published folders with execution records."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Output folder for critic_sft.json, critic_rl.jsonl, images and report.")
    ],
    prompts: Annotated[
        str | None,
        typer.Option(
            "--critic-prompts",
            help="Prompt set of the critic to train: a folder of a checkpoint or a prompt set, or "
            "tinyworld:critic. "
            "Default: the built-in prompt set.",
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(help=f"Scorer of the images: {SCORERS}. Default: none; then no RL rows are made."),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", help="Skip damaged runs instead of stopping. They are counted and listed."
        ),
    ] = False,
    show: Annotated[
        int,
        typer.Option(min=0, max=5000, help="Number of attempt chains to show on page.html for review."),
    ] = 0,
    corrections: Annotated[
        Path | None,
        typer.Option(
            "--corrections",
            "--words",
            help="Corrections saved by page.html; they are first added to the feedback of the runs.",
        ),
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching items are left out.")
    ] = None,
    parallel: ImagesAtATime = 1,
    ray: RayAddress = None,
    workers: Workers = 2,
    settings: FilterData,
) -> None:
    """Filter trajectories into rows for critic-sft and critic-grpo.

    Keep those that improved, truncate each at its best image, and balance the verdicts.
    """
    from ...backend.prompts import default_prompt_set
    from ...training.data.from_runs.convert import RunConverter
    from ...training.data.from_runs.page import take_corrections
    from ...training.data.from_runs.scoring import OpenJudge
    from ..open_models import prompts_in

    if corrections is not None:
        typer.echo(f"{take_corrections(corrections, runs)} corrections added to the feedback of the runs")
    judge = OpenJudge(scorer, settings.score_repeats, settings.match_size) if scorer else None
    converter = RunConverter(
        settings,
        prompts_in(prompts) or default_prompt_set(),
        judge and judge(),
        None,
        skip_bad,
        lambda line: typer.echo(shown_text(line)),
        show,
        guard,
        open_executor(parallel, ray, workers),
        judge if ray else None,
    )
    made = converter.convert(runs, out)
    typer.echo(f"\ndata: {', '.join(str(path) for path in (made.sft, made.rl, made.held_out) if path)}")
    if show:
        from ...training.data.from_runs.page import PAGE

        typer.echo(f"page: {out / PAGE}")

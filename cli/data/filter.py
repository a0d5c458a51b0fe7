"""`data filter`: a teacher's trajectories become a critic's rows, by the published rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.shown_text import shown_text
from ...training.data.from_runs.settings import FilterData
from ..options.models import with_model_options
from ..options.teachers import ImagesAtATime, RayAddress, Workers, open_executor


@with_model_options
def command(
    *,
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of runs (`data trajectories`), or published folders with their records."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for critic_sft.json, critic_rl.jsonl, images and report.")
    ],
    prompts: Annotated[
        str | None,
        typer.Option(
            "--critic-prompts",
            help="Prompt set of the critic that is to learn: its checkpoint's folder, "
            "or that of a prompt set, or tinyworld:critic; empty: the pack's own wording.",
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Who scores images: tinyworld, or judge:CHAT; empty: nobody, and nothing goes to RL."
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out runs that are damaged, counted and listed.")
    ] = False,
    show: Annotated[
        int,
        typer.Option(min=0, max=5000, help="Chains of page.html, for a person to disagree with."),
    ] = 0,
    corrections: Annotated[
        Path | None,
        typer.Option(
            "--corrections", "--words", help="What the page saved: it becomes feedback of the runs first."
        ),
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Index of benchmarks (`data guard`), of which nothing is taught.")
    ] = None,
    parallel: ImagesAtATime = 1,
    ray: RayAddress = None,
    workers: Workers = 2,
    settings: FilterData,
) -> None:
    """Keep the chains that got somewhere, cut at their best image, balanced: rows for critic-sft and
    critic-grpo."""
    from ...backend.prompts import default_prompt_set
    from ...training.data.from_runs.convert import RunConverter
    from ...training.data.from_runs.page import take_corrections
    from ...training.data.from_runs.scoring import OpenJudge
    from ..open_models import prompts_in

    if corrections is not None:
        typer.echo(f"{take_corrections(corrections, runs)} corrections written into the runs")
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

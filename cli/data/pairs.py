"""`data pairs`, `data critic-pairs`, `data planner-pairs`: preference pairs from runs or samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.shown_text import shown_text
from ...training.data.from_runs.settings import RunsData
from ...training.dpo.pairs.from_runs import RunPairs
from ...training.dpo.pairs.sampling import SampledPairs
from ...training.reward.critic_reward import RewardSettings
from ...training.reward.plans.judging import JudgingSettings
from ...training.reward.plans.terms import PlanRewardSettings
from ...training.reward.redraws.drawing_settings import DrawingSettings
from ..options.models import with_model_options
from ..options.runs import SCORERS
from ..options.service import ServiceOptions
from ..options.training import Download, Images, Model, SkipBad, checkpoint_of, existing_file, log
from ..train.planner_grpo import opened_judge

Folder = Annotated[Path, typer.Option(help="Output folder for the pairs, their images and report.json.")]
SuccessAt = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=10,
        help="Semantics score from which an image counts as correct. Default: scores are not used.",
    ),
]


@with_model_options
def from_runs(
    *,
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders (--out of `run`), or folders that contain run folders.")
    ],
    out: Folder,
    init: Annotated[
        str | None,
        typer.Option(
            help="Checkpoint of the critic to train, for its prompt set. Default: the built-in one."
        ),
    ] = None,
    download: Download = False,
    scorer: Annotated[str | None, typer.Option(help=f"Scorer for images without a score: {SCORERS}.")] = None,
    success_at: SuccessAt = None,
    exact: Annotated[
        bool, typer.Option("--exact-reasoning", help="Tiny world: write exact reasoning.")
    ] = False,
    skip_bad: SkipBad = False,
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching items are left out.")
    ] = None,
    settings: RunPairs,
) -> None:
    """Make pairs for critic-dpo from runs.

    The rejected answer is the critic's own; the chosen one follows from feedback, scores and later attempts.
    """
    from ...backend.prompts import default_prompt_set, prompt_set_of
    from ...backend.scorers import open_scorer
    from ...training.data.from_runs.convert import RunConverter
    from ...training.dpo.pairs.from_runs import pairs_from_runs

    oracle = None
    if exact:
        from ...tinyworld.lab.data.oracle_critic import OracleCritic

        oracle = OracleCritic()
    prompt_set = prompt_set_of(checkpoint_of(init, download)) if init else None
    converter = RunConverter(
        RunsData(success_at=success_at, reasoning="tinyworld" if exact else "own"),
        prompt_set or default_prompt_set(),
        open_scorer(scorer) if scorer else None,
        oracle,
        skip_bad,
        log,
        guard=guard,
    )
    log(f"pairs: {pairs_from_runs(converter, settings, runs, out)}")


@with_model_options
def critic_pairs(
    *,
    data: Annotated[Path, existing_file("Data file: critic_rl.jsonl.")],
    images: Images = None,
    model: Model,
    download: Download = False,
    generator: Annotated[str, typer.Option(help="Generator for the refined prompts, as in `run`.")],
    scorer: Annotated[str, typer.Option(help=f"Scorer of the images: {SCORERS}.")],
    out: Folder,
    skip_bad: SkipBad = False,
    settings: SampledPairs,
    reward: RewardSettings,
    drawing: DrawingSettings,
    services: ServiceOptions,
) -> None:
    """Make pairs for critic-dpo from sampled answers of a critic.

    The answers are scored as in critic-grpo; the best and the worst make a pair. Run the same command again
    to resume.
    """
    from ...backend.generators import open_generator
    from ...backend.scorers import open_scorer
    from ...training.data.rows.rl import read_rl_rows
    from ...training.data.rows.sft import show_problems
    from ...training.dpo.pairs.sampled import PairMaker, SampledRows
    from ...training.grpo.critic_task import CriticTask
    from ...training.reward.critic_reward import RewardSetup

    rows, problems = read_rl_rows(data, skip_bad, images)
    show_problems(problems, len(rows), log)
    setup = RewardSetup(open_generator(generator, **services.given), open_scorer(scorer), reward, drawing)
    maker = PairMaker(checkpoint_of(model, download), CriticTask(setup), settings, log)
    log(f"pairs: {shown_text(str(maker.make(SampledRows(rows, data.parent), out)))}")


@with_model_options
def planner_pairs(
    *,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders whose plans for the same requests are used, too."),
    ] = None,
    data: Annotated[Path, existing_file("Data file: planner_rl.jsonl.")],
    images: Images = None,
    model: Model,
    download: Download = False,
    judge: Annotated[
        str, typer.Option(help="Judge of the plans: tinyworld, or a chat model such as openai:MODEL@URL.")
    ],
    out: Folder,
    skip_bad: SkipBad = False,
    settings: SampledPairs,
    reward: PlanRewardSettings,
    judging: JudgingSettings,
) -> None:
    """Make pairs for planner-dpo from sampled plans.

    The plans are judged as in planner-grpo; the best and the worst make a pair. Run the same command again
    to resume.
    """
    from ...training.data.rows.planner_rl import read_planner_rl
    from ...training.data.rows.sft import show_problems
    from ...training.dpo.pairs.sampled import PairMaker, SampledRows, plans_of_runs
    from ...training.grpo.planner_task import PlannerTask

    rows, problems = read_planner_rl(data, skip_bad, images)
    show_problems(problems, len(rows), log)
    opened = opened_judge(judge)
    for row in rows:
        opened.check(row)
    given = plans_of_runs(runs or [], rows, skip_bad, log)
    task = PlannerTask(opened, reward, judging, data.parent)
    maker = PairMaker(checkpoint_of(model, download), task, settings, log)
    log(f"pairs: {shown_text(str(maker.make(SampledRows(rows, data.parent, given), out)))}")

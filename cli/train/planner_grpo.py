"""`train planner-grpo`: reinforcement learning of a planner from scores of its plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...backend.errors import SettingsError
from ...training.grpo.planner_settings import PlannerGrpoTraining
from ...training.reward.plans.execution_settings import ExecutionSettings
from ...training.reward.plans.judging import JudgingSettings
from ...training.reward.plans.terms import PlanRewardSettings
from ..options.config import Config
from ..options.models import with_model_options
from ..options.runs import SCORERS
from ..options.service import RewarderOptions, ServiceOptions
from ..options.training import (
    Download,
    DryRun,
    Images,
    Model,
    Out,
    SkipBad,
    checkpoint_of,
    dry_run_if,
    existing_file,
    log,
)

if TYPE_CHECKING:
    from ...training.reward.plans.judges import PlanJudge


@with_model_options
def command(
    *,
    config: Config = None,
    model: Model,
    download: Download = False,
    data: Annotated[Path, existing_file("Data file: planner_rl.jsonl.")],
    held_out: Annotated[
        Path | None,
        existing_file("Held-out rows (another planner_rl.jsonl). Default: the last rows of --data."),
    ] = None,
    images: Images = None,
    judge: Annotated[
        str,
        typer.Option(
            help="Judge of the plans: tinyworld (simulates them), or a chat model such as openai:MODEL@URL "
            "(checks the "
            "checklists of the rows)."
        ),
    ],
    generator: Annotated[
        str | None,
        typer.Option(
            help="Execute the plans with this generator, as in `run`, and reward their images too. Needs "
            "--scorer."
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help=f"Scorer of the images against the prompts of their steps: {SCORERS}, or judge:base (the "
            "base model of the trained adapter, without a second copy)."
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Cache file of generated and scored images, which trainings can share. Default: in --out."
        ),
    ] = None,
    out: Out,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    settings: PlannerGrpoTraining,
    reward: PlanRewardSettings,
    judging: JudgingSettings,
    execution: ExecutionSettings,
    rewarders: RewarderOptions,
    services: ServiceOptions,
) -> None:
    """Train a planner with reinforcement learning (GRPO) on planner_rl.jsonl.

    Its plans are judged as texts. With --generator and --scorer they are also executed, once per step and
    without a critic, and how well the images show their prompts is part of the reward.
    """
    from ...backend.generators import open_generator
    from ...backend.scorers import open_scorer
    from ...training.data.rows.planner_rl import read_planner_rl
    from ...training.data.rows.sft import show_problems
    from ...training.grpo.planner_settings import split_planner_rows
    from ...training.grpo.planner_task import PlannerTask
    from ...training.grpo.train import TrainingData, train
    from ...training.reward.base_judge import NAME, BaseJudge
    from ...training.reward.plans.execution import ExecutionSetup
    from ...training.trainer.model_loading import check_options

    check_options(settings)
    rows, problems = read_planner_rl(data, skip_bad, images)
    show_problems(problems, len(rows), log)
    if held_out is None:
        rows, held = split_planner_rows(rows, settings)
    else:
        checked, problems = read_planner_rl(held_out, skip_bad, images)
        show_problems(problems, len(checked), log)
        held = [row.moved(held_out.parent) for row in checked[: settings.check_rows]]
        held_out_requests = {row.request for row in held}
        rows = [row for row in rows if row.request not in held_out_requests]
    log(f"{len(rows)} requests; {len(held)} held out")
    if (generator is None) != (scorer is None):
        raise SettingsError(
            "Plans are executed with --generator and --scorer, but only one of them is given.",
            "Give both, or none to judge plans as texts.",
        )
    if generator is None and cache is not None:
        raise SettingsError("--cache is for the images of executed plans.", "Give --generator and --scorer.")
    folder = checkpoint_of(model, download)
    executing = None
    if generator is not None and scorer is not None:
        if execution.take_turns and settings.use_vllm:
            raise SettingsError("--take-turns cannot be combined with --use-vllm.", "Remove one of them.")
        opened = open_generator(generator, **rewarders.generator, **services.given)
        scores = BaseJudge(folder, settings) if scorer == NAME else open_scorer(scorer, **rewarders.judge)
        executing = ExecutionSetup(opened, scores, execution, None if dry_run else cache)
    task = PlannerTask(opened_judge(judge), reward, judging, data.parent, executing)
    with dry_run_if(dry_run):
        made = train(folder, TrainingData(rows, held, data.parent, skip_bad), out, settings, task, log)
    if not dry_run:
        log(f"checkpoint: {made}")


def opened_judge(judge: str) -> PlanJudge:
    """Open a judge of plans: the tiny world or a chat model.

    Raises:
        SettingsError: The name is not valid.
        ChatError: The chat model cannot be loaded or reached.
    """
    if judge == "tinyworld":
        from ...tinyworld.lab.planning.simulated_world import SimulatedWorld

        return SimulatedWorld()
    from ...backend.chat import open_chat
    from ...training.reward.plans.judges import ChecklistJudge

    return ChecklistJudge(open_chat(judge))

"""`train planner-grpo`: reinforcement learning of a planner from scores of its plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...training.reward.plan_judges import JudgingSettings
from ...training.reward.plan_reward import PlanRewardSettings
from ...training.stages.grpo_settings import PlannerGrpoTraining
from ..options.config import Config
from ..options.models import with_model_options
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
    from ...training.reward.plan_judges import PlanJudge


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
    out: Out,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    settings: PlannerGrpoTraining,
    reward: PlanRewardSettings,
    judging: JudgingSettings,
) -> None:
    """Train a planner with reinforcement learning (GRPO) on planner_rl.jsonl.

    Its plans are judged as texts.
    """
    from ...training.data.rows.rl import read_planner_rl
    from ...training.data.rows.sft import show_problems
    from ...training.stages.grpo import TrainingData, train
    from ...training.stages.grpo_settings import split_planner_rows
    from ...training.stages.grpo_tasks import PlannerTask
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
    folder = checkpoint_of(model, download)
    task = PlannerTask(opened_judge(judge), reward, judging, data.parent)
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
        from ...tinyworld.lab.data.planner_rl import SimulatedWorld

        return SimulatedWorld()
    from ...backend.chat import open_chat
    from ...training.reward.plan_judges import ChecklistJudge

    return ChecklistJudge(open_chat(judge))

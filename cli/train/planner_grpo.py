"""`train planner-grpo`: reinforcement of a planner by what its plans are worth, nothing drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...training.grpo.planner_settings import PlannerGrpoTraining
from ...training.reward.plans.judging import JudgingSettings
from ...training.reward.plans.terms import PlanRewardSettings
from ..options.config import Config
from ..options.models import with_model_options
from ..options.training import Download, Images, Model, Out, SkipBad, checkpoint_of, existing_file, log

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
        existing_file("Rows to check on, another planner_rl.jsonl; empty: the last ones of --data."),
    ] = None,
    images: Images = None,
    judge: Annotated[
        str,
        typer.Option(
            help="Who judges plans: tinyworld (by states), or a chat model by the rows' checklists, such as "
            "openai:MODEL@URL."
        ),
    ],
    out: Out,
    skip_bad: SkipBad = False,
    settings: PlannerGrpoTraining,
    reward: PlanRewardSettings,
    judging: JudgingSettings,
) -> None:
    """Train a planner by reinforcement on planner_rl.jsonl: its plans are judged, and nothing is drawn."""
    from ...training.data.rows.planner_rl import read_planner_rl
    from ...training.data.rows.sft import show_problems
    from ...training.gate.monitored_run import TrainingData
    from ...training.grpo.planner_settings import split_planner_rows
    from ...training.grpo.planner_task import PlannerTask
    from ...training.grpo.train import train
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
        asked = {row.request for row in held}
        rows = [row for row in rows if row.request not in asked]
    log(f"{len(rows)} requests; {len(held)} held out")
    task = PlannerTask(opened_judge(judge), reward, judging, data.parent)
    folder = checkpoint_of(model, download)
    made = train(folder, TrainingData(rows, held, data.parent, skip_bad), out, settings, task, log)
    log(f"checkpoint: {made}")


def opened_judge(judge: str) -> PlanJudge:
    """The tiny world, or a judge over the chat model of that name; raises SettingsError."""
    if judge == "tinyworld":
        from ...tinyworld.lab.planning.simulated_world import SimulatedWorld

        return SimulatedWorld()
    from ...backend.chat import open_chat
    from ...training.reward.plans.judges import ChecklistJudge

    return ChecklistJudge(open_chat(judge))

"""`train critic-grpo` and `train planner-grpo`: reinforcement learning of critics and planners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer
from pydantic import BaseModel, Field

from ...backend.core.errors import SettingsError
from ...backend.core.machine.registry import PLAN_JUDGES, Registry
from ...training.reward.critic_reward import RewardSettings
from ...training.reward.plan_judges import JudgingSettings
from ...training.reward.plan_reward import PlanRewardSettings
from ...training.reward.redrawer import DrawingSettings
from ...training.stages.grpo_settings import GrpoTraining, PlannerGrpoTraining
from ..models import ServiceOptions
from ..settings import with_settings
from ..shared_options import (
    SCORERS,
    Download,
    DryRun,
    Images,
    Model,
    Out,
    SkipBad,
    existing_file,
    log,
    start_of,
    trained,
)

if TYPE_CHECKING:
    from ...training.reward.plan_judges import PlanJudge
    from ...training.rows.values import RowProblem

Row = TypeVar("Row")


class RewarderOptions(BaseModel):
    """Generator and judge of the rewards."""

    generator_steps: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Sampling steps per generated image. Default: the generator's own.",
    )
    generator_size: str | None = Field(
        default=None,
        description="Size of a generated image as WIDTHxHEIGHT. Default: the size of the image before it.",
    )
    generator_dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        default=None, description="Dtype of the generator. Default: chosen for its device."
    )
    generator_device: str | None = Field(
        default=None,
        max_length=40,
        description="Device of the generator, such as cuda:1 or cpu. Default: the first GPU.",
    )
    judge_dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None, description="Dtype of a local judge. Default: the dtype of its checkpoint."
    )
    judge_device: str | None = Field(
        default=None,
        max_length=40,
        description="Device of a local judge, such as cuda:1. Default: the first GPU.",
    )
    judge_quantization: Literal["8bit", "4bit"] | None = Field(
        default=None, description="Quantize the language model of a local judge."
    )

    def of(self, role: Literal["generator", "judge"]) -> dict[str, object]:
        """Return the options of the generator or of the judge that are set."""
        values = self.model_dump(exclude_none=True).items()
        return {name.removeprefix(f"{role}_"): value for name, value in values if name.startswith(role)}


@with_settings
def critic_grpo(
    *,
    model: Model,
    download: Download = False,
    data: Annotated[Path, existing_file("Data file: critic_rl.jsonl.")],
    held_out: Annotated[
        Path | None,
        existing_file("Held-out rows (another critic_rl.jsonl). Default: the last rows of --data."),
    ] = None,
    images: Images = None,
    generator: Annotated[str, typer.Option(help="Generator for the refined prompts, as in `run`.")],
    scorer: Annotated[
        str,
        typer.Option(
            help=f"Scorer of the images: {SCORERS}, or judge:base (the base model of the trained adapter, "
            "without a second copy)."
        ),
    ],
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Cache file of generated and scored images, which trainings can share. Default: in --out."
        ),
    ] = None,
    out: Out,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    settings: GrpoTraining,
    reward: RewardSettings,
    drawing: DrawingSettings,
    rewarders: RewarderOptions,
    services: ServiceOptions,
) -> None:
    """Train a critic with reinforcement learning (GRPO) on critic_rl.jsonl.

    Images are generated from its refined prompts and scored. Verdict and score are the reward.
    """
    from ...backend.models.generators import open_generator
    from ...backend.models.scorers import open_scorer
    from ...training.reward.base_judge import NAME, BaseJudge
    from ...training.reward.critic_reward import RewardSetup
    from ...training.rows.rl import other_sources, read_rl_rows
    from ...training.stages.grpo import CriticTask, train
    from ...training.stages.grpo_settings import TrainingData, check_rows_of, split_held_out

    folder, settings = start_of(model, download, settings)
    if drawing.take_turns and settings.use_vllm:
        raise SettingsError("--take-turns cannot be combined with --use-vllm.", "Remove one of them.")
    rows = _read(read_rl_rows, data, skip_bad, images)
    if held_out is not None:
        checked = check_rows_of(_read(read_rl_rows, held_out, skip_bad, images), settings)
        held = [row.moved(held_out.parent) for row in checked]
        held_out_images = {row.edited_image_path for row in held}
        rows = [row for row in rows if row.moved(data.parent).edited_image_path not in held_out_images]
    else:
        rows, held = split_held_out(rows, settings)
    right = sum(row.evaluation.success for row in rows)
    log(
        f"{len(rows)} rows, {right} about correct and {len(rows) - right} about wrong images; {len(held)} "
        "held out"
    )
    redraws = open_generator(generator, **rewarders.of("generator"), **services.given)
    scores = BaseJudge(folder, settings) if scorer == NAME else open_scorer(scorer, **rewarders.of("judge"))
    for warning in other_sources([*rows, *held], redraws.identity, scores.identity):
        log(warning)
    setup = RewardSetup(redraws, scores, reward, drawing, None if dry_run else cache)
    rl = TrainingData(rows, held, data.parent, skip_bad)
    trained(dry_run, lambda: train(folder, rl, out, settings, CriticTask(setup), log))


@with_settings
def planner_grpo(
    *,
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
            "(checks the checklists of the rows)."
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
    from ...training.rows.rl import read_planner_rl
    from ...training.stages.grpo import PlannerTask, train
    from ...training.stages.grpo_settings import TrainingData, split_planner_rows

    folder, settings = start_of(model, download, settings)
    rows = _read(read_planner_rl, data, skip_bad, images)
    if held_out is None:
        rows, held = split_planner_rows(rows, settings)
    else:
        checked = _read(read_planner_rl, held_out, skip_bad, images)
        held = [row.moved(held_out.parent) for row in checked[: settings.check_rows]]
        held_out_requests = {row.request for row in held}
        rows = [row for row in rows if row.request not in held_out_requests]
    log(f"{len(rows)} requests; {len(held)} held out")
    task = PlannerTask(opened_judge(judge), reward, judging, data.parent)
    rl = TrainingData(rows, held, data.parent, skip_bad)
    trained(dry_run, lambda: train(folder, rl, out, settings, task, log))


def _read(
    read: Callable[[Path, bool, Path | None], tuple[list[Row], list[RowProblem]]],
    path: Path,
    skip_bad: bool,
    images: Path | None,
) -> list[Row]:
    """Return the rows of a file, and print which are left out."""
    from ...training.rows.values import show_problems

    rows, problems = read(path, skip_bad, images)
    show_problems(problems, len(rows), log)
    return rows


def opened_judge(judge: str) -> PlanJudge:
    """Open a judge of plans: that of a plug-in (tinyworld) or a chat model.

    Raises:
        SettingsError: The name is not valid.
        ChatError: The chat model cannot be loaded or reached.
    """
    judges = Registry("plan judge", {}, __name__, PLAN_JUDGES, "open")
    if judge in judges.names:
        return judges.load(judge)()
    from ...backend.models.chat import open_chat
    from ...training.reward.plan_judges import ChecklistJudge

    return ChecklistJudge(open_chat(judge))

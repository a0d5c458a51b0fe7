"""`train critic-grpo`: reinforcement learning of a critic from verdicts and refined prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...training.reward.critic_reward import RewardSettings
from ...training.reward.redrawer import DrawingSettings
from ...training.stages.grpo_settings import GrpoTraining
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


@with_model_options
def command(
    *,
    config: Config = None,
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
    from ...backend.generators import open_generator
    from ...backend.scorers import open_scorer
    from ...training.data.rows.rl import other_sources, read_rl_rows
    from ...training.data.rows.sft import show_problems
    from ...training.reward.base_judge import NAME, BaseJudge
    from ...training.reward.critic_reward import RewardSetup
    from ...training.stages.grpo import TrainingData, train
    from ...training.stages.grpo_settings import check_rows_of, split_held_out
    from ...training.stages.grpo_tasks import CriticTask
    from ...training.trainer.model_loading import check_options

    check_options(settings)
    if drawing.take_turns and settings.use_vllm:
        raise SettingsError("--take-turns cannot be combined with --use-vllm.", "Remove one of them.")
    rows, problems = read_rl_rows(data, skip_bad, images)
    show_problems(problems, len(rows), log)
    if held_out is not None:
        checked, problems = read_rl_rows(held_out, skip_bad, images)
        show_problems(problems, len(checked), log)
        held = [row.moved(held_out.parent) for row in check_rows_of(checked, settings)]
        held_out_images = {row.edited_image_path for row in held}
        rows = [row for row in rows if row.moved(data.parent).edited_image_path not in held_out_images]
    else:
        rows, held = split_held_out(rows, settings)
    right = sum(row.evaluation.success for row in rows)
    log(
        f"{len(rows)} rows, {right} about correct and {len(rows) - right} about wrong images; {len(held)} "
        "held out"
    )
    folder = checkpoint_of(model, download)
    redraws = open_generator(generator, **rewarders.generator, **services.given)
    scores = BaseJudge(folder, settings) if scorer == NAME else open_scorer(scorer, **rewarders.judge)
    for warning in other_sources([*rows, *held], redraws.identity, scores.identity):
        log(warning)
    setup = RewardSetup(redraws, scores, reward, drawing, None if dry_run else cache)
    with dry_run_if(dry_run):
        made = train(
            folder,
            TrainingData(rows, held, data.parent, skip_bad),
            out,
            settings,
            CriticTask(setup),
            log,
        )
    if not dry_run:
        log(f"checkpoint: {made}")

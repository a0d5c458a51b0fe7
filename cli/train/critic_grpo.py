"""`train critic-grpo`: reinforcement of a critic by its verdicts and by what its refined prompts draw."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...training.grpo.settings import GrpoTraining
from ...training.reward.critic_reward import RewardSettings
from ...training.reward.redraws.drawing_settings import DrawingSettings
from ..options.config import Config
from ..options.models import with_model_options
from ..options.service import RewarderOptions, ServiceOptions
from ..options.training import Download, Images, Model, Out, SkipBad, checkpoint_of, existing_file, log


@with_model_options
def command(
    *,
    config: Config = None,
    model: Model,
    download: Download = False,
    data: Annotated[Path, existing_file("Data file: critic_rl.jsonl.")],
    held_out: Annotated[
        Path | None,
        existing_file("Rows to check on, another critic_rl.jsonl; empty: the last ones of --data."),
    ] = None,
    images: Images = None,
    generator: Annotated[str, typer.Option(help="Who redraws: NAME or NAME:ARGUMENT, as in `run`.")],
    scorer: Annotated[
        str,
        typer.Option(
            help="Who scores: tinyworld, judge:CHAT, or judge:base (the model under the adapter that is "
            "trained: no second copy)."
        ),
    ],
    cache: Annotated[
        Path | None,
        typer.Option(help="File of drawn and scored images, to be shared by runs; empty: within --out."),
    ] = None,
    out: Out,
    skip_bad: SkipBad = False,
    settings: GrpoTraining,
    reward: RewardSettings,
    drawing: DrawingSettings,
    rewarders: RewarderOptions,
    services: ServiceOptions,
) -> None:
    """Train a critic by reinforcement on critic_rl.jsonl: its refined prompts are drawn and scored."""
    from ...backend.generators import open_generator
    from ...backend.scorers import open_scorer
    from ...training.data.rows.rl import other_sources, read_rl_rows
    from ...training.data.rows.sft import show_problems
    from ...training.gate.monitored_run import TrainingData
    from ...training.grpo.critic_task import CriticTask
    from ...training.grpo.settings import check_rows_of, split_held_out
    from ...training.grpo.train import train
    from ...training.reward.base_judge import NAME, BaseJudge
    from ...training.reward.critic_reward import RewardSetup
    from ...training.trainer.model_loading import check_options

    check_options(settings)
    if drawing.take_turns and settings.use_vllm:
        raise SettingsError("--take-turns leaves no card to vLLM.", "Leave --use-vllm out.")
    rows, problems = read_rl_rows(data, skip_bad, images)
    show_problems(problems, len(rows), log)
    if held_out is not None:
        checked, problems = read_rl_rows(held_out, skip_bad, images)
        show_problems(problems, len(checked), log)
        held = [row.moved(held_out.parent) for row in check_rows_of(checked, settings)]
        asked_about = {row.edited_image_path for row in held}
        rows = [row for row in rows if row.moved(data.parent).edited_image_path not in asked_about]
    else:
        rows, held = split_held_out(rows, settings)
    right = sum(row.evaluation.success for row in rows)
    log(
        f"{len(rows)} rows, {right} of right images and {len(rows) - right} of wrong ones; {len(held)} "
        "held out"
    )
    folder = checkpoint_of(model, download)
    redraws = open_generator(generator, **rewarders.generator, **services.given)
    scores = BaseJudge(folder, settings) if scorer == NAME else open_scorer(scorer, **rewarders.judge)
    for warning in other_sources([*rows, *held], redraws.identity, scores.identity):
        log(warning)
    made = train(
        folder,
        TrainingData(rows, held, data.parent, skip_bad),
        out,
        settings,
        CriticTask(RewardSetup(redraws, scores, reward, drawing, cache)),
        log,
    )
    log(f"checkpoint: {made}")

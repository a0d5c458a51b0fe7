"""Small reinforcement learning of the tiny critic for tests: rows, settings, one call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from support.rendered_pages import rendered

from interleave_thinker import open_generator, open_scorer
from interleave_thinker.research.tinyworld.data.critic_rows import ImageFolder, rl_row
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.recipes.recipe import read_recipe
from interleave_thinker.training.reward.critic_reward import RewardSettings, RewardSetup
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.rows.rl import read_rl_rows, write_rl_rows
from interleave_thinker.training.stages.grpo import CriticTask, train
from interleave_thinker.training.stages.grpo_settings import (
    GrpoTraining,
    PlannerGrpoTraining,
    TrainingData,
    split_held_out,
)
from interleave_thinker.training.stages.sft import SftTraining

SMALL = GrpoTraining(
    learning_rate=1e-4, prompts=2, num_generations=4, updates=2, per_device_train_batch_size=4, rollouts=2,
    max_completion_length=200, save_every=1, check_rows=4, check_batch=4, collapse_threshold=0.0,
    weight_decay=0.01, tensorboard=False, device="cpu",
)  # fmt: skip


def recipe_settings(name: str, stage: str, **changes: Any) -> Any:
    """Return the training settings of a recipe's stage, with changes."""
    kinds = {"critic-grpo": GrpoTraining, "planner-grpo": PlannerGrpoTraining}
    kind = kinds.get(stage, SftTraining)
    values = read_recipe(name, stage) | changes
    return kind(**{key: value for key, value in values.items() if key in kind.model_fields})


def make_data(folder: Path, right: int = 12, wrong: int = 12) -> Path:
    """Write rows about this many correct and wrong rendered images, for which nothing is generated."""
    rng, pages = Random(3), ImageFolder(folder / "pages")
    wanted, rows = {True: right, False: wrong}, []
    while any(wanted.values()):
        drawn = rendered(rng)
        if wanted[drawn.success]:
            wanted[drawn.success] -= 1
            rows.append(rl_row(drawn, pages))
    write_rl_rows(folder / "critic_rl.jsonl", rows)
    return folder / "critic_rl.jsonl"


def run(
    data: Path,
    out: Path,
    settings: GrpoTraining = SMALL,
    log: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> Path:
    """Reinforce a critic; the options replace its model, rows and the parts of its reward."""
    rows, held = split_held_out(read_rl_rows(data)[0], settings)
    wrong_first = sorted(rows, key=lambda row: row.evaluation.success)[: 2 * settings.prompts]
    reward = RewardSetup(
        options.get("generator") or open_generator("tinyworld"),
        open_scorer("tinyworld"),
        options.get("reward", RewardSettings()),
        options.get("drawing", DrawingSettings(tries=1)),
    )
    rl = TrainingData(wrong_first, options.get("held", held), data.parent)
    return train(options.get("model", checkpoint("critic")), rl, out, settings, CriticTask(reward), log)

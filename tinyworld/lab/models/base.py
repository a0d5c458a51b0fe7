"""Base agents, before they are a planner or a critic, made by `train tinyworld-base`.

They correspond to the vision-language model that training starts from. They can read and see: the planner has
read single sentences but no multi-step story, and the critic has described image pairs but never judged one.
Everything they know about planning and judging later comes from the training rows.
"""

from __future__ import annotations

from pathlib import Path

from ....training.data.rows.row_sets import RowSet
from ....training.data.rows.sft import SftRow
from ....training.sft.train import SftData, train
from ..data.critic_rows import make_rendered
from ..data.planner_rows import in_buckets, make, make_sentences
from ..data.prompts import PROMPT_SET
from .agents import untrained
from .recipes import BaseRecipe, Log, publish, sft_settings, stored_rows, texts_of

WORDS_FROM = 2000
"""Rows of stories and verdicts for learning the vocabularies; no weights are trained on them."""


def train_base(out: Path, recipe: BaseRecipe, log: Log = print) -> tuple[Path, Path]:
    """Train both base agents below `out`, continuing a stopped run.

    Returns:
        The checkpoint folders of planner and critic.
    """
    return _planner(out / "planner", recipe, log), _critic(out / "critic", recipe, log)


def _planner(out: Path, recipe: BaseRecipe, log: Log) -> Path:
    def sentences(folder: Path) -> list[SftRow]:
        return in_buckets(
            make_sentences(folder, recipe.sentences, recipe.seed),
            recipe.per_device_train_batch_size,
            recipe.seed,
        )

    data, fresh = out / "data", out / "untrained"
    rows = stored_rows(data, "sentences_sft.json", sentences, log)
    if not (fresh / "prompt_set").exists():
        stories = make(data, min(WORDS_FROM, recipe.sentences), recipe.seed)
        words = texts_of([*rows[:WORDS_FROM], *stories])
        untrained(fresh, words, recipe.planner_layers, recipe.seed)
    return _trained(out, fresh, RowSet(rows, data), recipe, log)


def _critic(out: Path, recipe: BaseRecipe, log: Log) -> Path:
    def described(folder: Path) -> list[SftRow]:
        return make_rendered(folder, recipe.described, 0, recipe.seed)

    data, fresh = out / "data", out / "untrained"
    rows = stored_rows(data, "described_sft.json", described, log)
    if not (fresh / "prompt_set").exists():
        judged = make_rendered(data, 0, min(WORDS_FROM, recipe.described), recipe.seed + 1)
        words = texts_of([*rows[:WORDS_FROM], *judged])
        untrained(fresh, words, recipe.critic_layers, recipe.seed, recipe.page_side)
    return _trained(out, fresh, RowSet(rows, data), recipe, log)


def _trained(out: Path, fresh: Path, rows: RowSet, recipe: BaseRecipe, log: Log) -> Path:
    settings = sft_settings(recipe.learning_rate, recipe, ordered=True).model_copy(update={"samples": 0})
    return publish(train(fresh, SftData(rows), out / "sft", settings, PROMPT_SET, log), out)

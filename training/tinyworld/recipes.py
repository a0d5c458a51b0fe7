"""The three commands that make the tiny world's checkpoints, each with the settings that made the shipped ones.

Decision: a recipe is data, an untrained model and the same SFT that trains any planner or critic; every part is seeded and
skipped when its result is there already, so that a stopped run goes on. Only what is finished is moved into place.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from ...backend.generators.tinyworld import load_pipeline
from ..data import SftRow, read_rows, write_rows
from ..sft import SftTraining, train
from .agents import PROMPT_SET, untrained
from .critic_data import make_mistakes, make_real, make_rendered
from .planner_data import make

Log = Callable[[str], None]


class PlannerRecipe(BaseModel):
    """Settings of `train tinyworld-planner`."""

    rows: int = Field(default=64000, ge=32, description="Requests to train on, each seen once.")
    layers: int = Field(default=4, ge=1, description="Layers of the language model.")
    rate: float = Field(default=1.5e-3, gt=0, description="Peak learning rate.")
    batch: int = Field(default=32, ge=1, description="Rows per optimiser step.")
    seed: int = Field(default=0, ge=0, description="Seed of weights and requests.")
    device: Literal["auto", "cpu"] = Field(default="auto", description="Where to train.")
    workers: int = Field(default=0, ge=0, description="Processes that read and prepare images.")


class CriticRecipe(BaseModel):
    """Settings of `train tinyworld-critic`: rendered pages, the generator's real ones, its mistakes."""

    describe: int = Field(default=9600, ge=0, description="Rows that teach to see, before all others.")
    rendered: int = Field(default=30400, ge=1, description="Rows about rendered pages with made-up mistakes.")
    real: int = Field(
        default=32000, ge=1, description="Rows about the generator's real pages, half of them right."
    )
    mistakes: int = Field(
        default=9000,
        ge=1,
        description="Rows a round about the generator's own mistakes and right pages.",
    )
    rounds: int = Field(default=2, ge=1, description="Rounds of such rows, each drawn anew.")
    layers: int = Field(default=3, ge=1, description="Layers of the language model.")
    rate: float = Field(default=1.5e-3, gt=0, description="Peak learning rate on rendered pages.")
    real_rate: float = Field(default=1.2e-3, gt=0, description="Peak learning rate on real pages.")
    last_rate: float = Field(
        default=6e-4, gt=0, description="Peak learning rate on the generator's own mistakes."
    )
    batch: int = Field(default=32, ge=1, description="Rows per optimiser step.")
    seed: int = Field(default=0, ge=0, description="Seed of weights and pages.")
    page_side: int = Field(default=48, ge=12, le=96, description="Pages are scaled to this many pixels a side.")
    device: Literal["auto", "cpu"] = Field(default="auto", description="Where to train.")
    workers: int = Field(default=0, ge=0, description="Processes that read and prepare images.")


def _sft(rate: float, recipe: PlannerRecipe | CriticRecipe, ordered: bool) -> SftTraining:
    return SftTraining(
        epochs=1,
        batch=recipe.batch,
        rate=rate,
        warm_up=0.05,
        weight_decay=0.01,
        second_moment=0.98,
        freeze_vision=False,
        ordered=ordered,
        save_every=250,
        device=recipe.device,
        gradient_checkpointing=False,
        workers=recipe.workers,
        half=True,
        seed=recipe.seed,
    )


def _rows(folder: Path, name: str, make_rows: Callable[[Path], list[SftRow]], log: Log) -> list[SftRow]:
    """The rows in `folder / name`, made first if they are not there."""
    path = folder / name
    if not path.exists():
        log(f"making {path.name}")
        part = path.with_suffix(".part")
        write_rows(part, make_rows(folder))
        part.replace(path)
    return read_rows(path)


def _texts(rows: list[SftRow]) -> list[str]:
    return [message.content for row in rows for message in row.messages]


def _publish(checkpoint: Path, out: Path) -> Path:
    """Copy a finished checkpoint to `out / "checkpoint"`, without what only training needs."""
    ready = out / "checkpoint"
    part = out / "checkpoint.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(checkpoint, part, ignore=shutil.ignore_patterns("training_args.bin", "*.pt", "README.md"))
    shutil.rmtree(ready, ignore_errors=True)
    part.replace(ready)
    return ready


def train_planner(out: Path, recipe: PlannerRecipe, log: Log = print) -> Path:
    """Make the tiny planner below `out`; returns its checkpoint folder."""
    data = out / "data"
    rows = _rows(data, "planner_sft.json", lambda folder: make(folder, recipe.rows, recipe.seed), log)
    fresh = out / "untrained"
    if not (fresh / "prompt_set").exists():
        untrained(fresh, _texts(rows[:4000]), recipe.layers, recipe.seed)
    settings = _sft(recipe.rate, recipe, ordered=False)
    return _publish(train(fresh, rows, data, out / "sft", settings, PROMPT_SET, log), out)


def train_critic(out: Path, generator: Path, recipe: CriticRecipe, log: Log = print) -> Path:
    """Make the tiny critic for the generator in a pipeline folder below `out`; returns its checkpoint folder."""
    data = out / "data"
    rows = _rows(
        data,
        "critic_rendered_sft.json",
        lambda folder: make_rendered(folder, recipe.describe, recipe.rendered, recipe.seed),
        log,
    )
    fresh = out / "untrained"
    if not (fresh / "prompt_set").exists():
        untrained(fresh, _texts([*rows[:1000], *rows[-4000:]]), recipe.layers, recipe.seed, recipe.page_side)
    first = out / "rendered" / "final"
    if not (first / "prompt_set").exists():
        settings = _sft(recipe.rate, recipe, ordered=True)
        train(fresh, rows, data, out / "rendered", settings, PROMPT_SET, log)
    rows = _rows(
        data,
        "critic_sft.json",
        lambda folder: make_real(folder, load_pipeline(generator), recipe.real, recipe.seed),
        log,
    )
    second = out / "real" / "final"
    if not (second / "prompt_set").exists():
        settings = _sft(recipe.real_rate, recipe, ordered=False)
        train(first, rows, data, out / "real", settings, PROMPT_SET, log)
    latest = second
    for number in range(recipe.rounds):
        rows = _rows(data, f"critic_mistakes_{number}_sft.json", _mistakes(generator, recipe, number), log)
        finished = out / f"mistakes_{number}" / "final"
        if not (finished / "prompt_set").exists():
            settings = _sft(recipe.last_rate, recipe, ordered=False)
            train(latest, rows, data, finished.parent, settings, PROMPT_SET, log)
        latest = finished
    return _publish(latest, out)


def _mistakes(generator: Path, recipe: CriticRecipe, number: int) -> Callable[[Path], list[SftRow]]:
    seed = recipe.seed + 1000 * number
    return lambda folder: make_mistakes(folder, load_pipeline(generator), recipe.mistakes, seed)

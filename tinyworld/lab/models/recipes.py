"""Recipes of the tiny world's checkpoints, with the settings of the shipped ones.

A recipe consists of data, an untrained model and the regular SFT. Every part is seeded and skipped if its
result exists, so that a stopped run continues. Only finished results are moved into place.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field

from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import writing_folder
from ....training.data.rows.sft import RowSet, SftRow, read_rows, write_rows
from ....training.stages.sft import SftData, SftTraining, train
from ...runtime.generator import load_pipeline
from ..data.critic_rows import PROMPT_SET, make_mistakes, make_real, make_rendered
from ..data.planner_rows import in_buckets, make
from .agents import untrained

if TYPE_CHECKING:
    from ...runtime.pipeline import TinyWorldPipeline

MAX_SHARDS = 12

Log = Callable[[str], None]


Device = Annotated[Literal["auto", "cpu"], Field(description="Where to train: auto uses a GPU if available.")]
Bf16 = Annotated[
    bool,
    Field(description="Train in bfloat16, which is 1.7 times as fast on processors that support it."),
]
Workers = Annotated[int, Field(ge=0, description="Processes that load and prepare images.")]


class PlannerRecipe(BaseModel):
    """Settings of `train tinyworld-planner`."""

    rows: int = Field(default=96000, ge=32, description="Requests to train on, each used once.")
    layers: int = Field(default=4, ge=1, description="Layers of the language model.")
    learning_rate: float = Field(default=1.5e-3, gt=0, description="Peak learning rate.")
    per_device_train_batch_size: int = Field(default=16, ge=1, description="Rows per optimizer step.")
    seed: int = Field(default=0, ge=0, description="Seed of weights and requests.")
    device: Device = "auto"
    bf16: Bf16 = True
    dataloader_num_workers: Workers = 0


class CriticRecipe(BaseModel):
    """Settings of `train tinyworld-critic`: rendered images, generated images, mistakes of the generator."""

    describe: int = Field(
        default=9600, ge=0, description="Rows that teach describing images, before all others."
    )
    rendered: int = Field(default=54400, ge=1, description="Rows with rendered images and invented mistakes.")
    real: int = Field(default=24000, ge=1, description="Rows with generated images, half of them correct.")
    mistakes: int = Field(
        default=8000,
        ge=1,
        description="Rows per round with mistakes of the generator and correct images.",
    )
    rounds: int = Field(default=2, ge=1, description="Number of such rounds, each with new images.")
    layers: int = Field(default=3, ge=1, description="Layers of the language model.")
    learning_rate: float = Field(default=1.5e-3, gt=0, description="Peak learning rate on rendered images.")
    real_learning_rate: float = Field(
        default=1.2e-3, gt=0, description="Peak learning rate on generated images."
    )
    last_learning_rate: float = Field(
        default=6e-4, gt=0, description="Peak learning rate on the generator's mistakes."
    )
    per_device_train_batch_size: int = Field(default=32, ge=1, description="Rows per optimizer step.")
    seed: int = Field(default=0, ge=0, description="Seed of weights and images.")
    draw_processes: int = Field(default=1, ge=1, description="Processes that generate images to train on.")
    page_side: int = Field(default=48, ge=12, le=96, description="Side in pixels to which images are scaled.")
    device: Device = "auto"
    bf16: Bf16 = True
    dataloader_num_workers: Workers = 0


def sft_settings(rate: float, recipe: PlannerRecipe | CriticRecipe, ordered: bool) -> SftTraining:
    """Return the SFT settings shared by all tiny-world models.

    Args:
        rate: Peak learning rate.
        recipe: Recipe with batch size, device and seed.
        ordered: Use the rows in the given order instead of a random one.
    """
    return SftTraining(
        num_train_epochs=1,
        per_device_train_batch_size=recipe.per_device_train_batch_size,
        learning_rate=rate,
        warmup_steps=0.05,
        weight_decay=0.01,
        adam_beta2=0.98,
        freeze_vision=False,
        train_sampling_strategy="sequential" if ordered else "random",
        save_steps=250,
        device=recipe.device,
        bf16=recipe.bf16,
        gradient_checkpointing=False,
        dataloader_num_workers=recipe.dataloader_num_workers,
        save_dtype="float16",
        seed=recipe.seed,
    )


def stored_rows(folder: Path, name: str, make_rows: Callable[[Path], list[SftRow]], log: Log) -> list[SftRow]:
    """Return the rows in `folder / name`; they are created if missing."""
    path = folder / name
    if not path.exists():
        log(f"creating {path.name}")
        write_rows(path, make_rows(folder))
    return read_rows(path)


PageRows = Callable[[Path, "TinyWorldPipeline", int, int], list[SftRow]]


@dataclass(frozen=True)
class _ImageShards:
    """Rows about generated images, made in shards by `processes` processes. Their number changes no row."""

    data: Path
    generator: Path
    processes: int
    log: Log

    def rows(self, name: str, make_rows: PageRows, count: int, seed: int) -> list[SftRow]:
        """Return the rows in the data file `name`; they are created if missing."""
        shards = max(1, min(MAX_SHARDS, count // 1000))
        counts = [count // shards + (number < count % shards) for number in range(shards)]

        def all_rows(folder: Path) -> list[SftRow]:
            jobs = [
                (make_rows, folder, self.generator, size, seed + number) for number, size in enumerate(counts)
            ]
            if self.processes == 1:
                return [row for job in jobs for row in _shard(*job)]
            with ProcessPoolExecutor(self.processes, get_context("spawn"), initializer=_one_thread) as pool:
                return [row for rows in pool.map(_shard, *zip(*jobs, strict=True)) for row in rows]

        return stored_rows(self.data, name, all_rows, self.log)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _shard(make_rows: PageRows, folder: Path, generator: Path, count: int, seed: int) -> list[SftRow]:
    return make_rows(folder, load_pipeline(generator), count, seed)


def texts_of(rows: list[SftRow]) -> list[str]:
    """Return questions and answers for learning a vocabulary."""
    return [message.content for row in rows for message in row.messages]


def publish(checkpoint: Path, out: Path) -> Path:
    """Copy a finished checkpoint to `out / "checkpoint"`, without files needed only for training."""
    ready = out / "checkpoint"
    unwanted = shutil.ignore_patterns("training_args.bin", "*.pt", "README.md")
    with writing_folder(ready, TrainingError, "The checkpoint") as temporary:
        shutil.copytree(checkpoint, temporary, ignore=unwanted, dirs_exist_ok=True)
    return ready


def train_planner(out: Path, recipe: PlannerRecipe, start: Path | None = None, log: Log = print) -> Path:
    """Train the tiny planner below `out` and return its checkpoint folder.

    Args:
        out: Folder of the training.
        recipe: Settings.
        start: Checkpoint of a planner to start from (its vocabulary is kept); `None` starts from random
            weights.
        log: Receives progress lines.

    Raises:
        SettingsError: If `start` is not a planner's checkpoint.
    """
    if start is not None and not (start / "prompt_set").is_dir():
        raise SettingsError(
            f"{str(start)!r} is not a planner checkpoint (it has no prompt_set folder).",
            "Pass the checkpoint folder of a tiny-world planner.",
        )
    data = out / "data"
    rows = stored_rows(data, "planner_sft.json", lambda folder: make(folder, recipe.rows, recipe.seed), log)
    fresh = start or out / "untrained"
    if not (fresh / "prompt_set").exists():
        untrained(fresh, texts_of(rows[:4000]), recipe.layers, recipe.seed)
    settings = sft_settings(recipe.learning_rate, recipe, ordered=True)
    ordered = RowSet(in_buckets(rows, recipe.per_device_train_batch_size, recipe.seed), data)
    made = train(fresh, SftData(ordered), out / "sft", settings, PROMPT_SET, log)
    return publish(made, out)


def train_critic(out: Path, generator: Path, recipe: CriticRecipe, log: Log = print) -> Path:
    """Train the tiny critic below `out` for a generator's pipeline folder; returns its checkpoint folder."""
    data = out / "data"
    rows = stored_rows(
        data,
        "critic_rendered_sft.json",
        lambda folder: make_rendered(folder, recipe.describe, recipe.rendered, recipe.seed),
        log,
    )
    fresh = out / "untrained"
    if not (fresh / "prompt_set").exists():
        untrained(
            fresh, texts_of([*rows[:1000], *rows[-4000:]]), recipe.layers, recipe.seed, recipe.page_side
        )
    first = out / "rendered" / "final"
    if not (first / "prompt_set").exists():
        settings = sft_settings(recipe.learning_rate, recipe, ordered=True)
        train(fresh, SftData(RowSet(rows, data)), out / "rendered", settings, PROMPT_SET, log)
    seed = recipe.seed * 10_000
    drawn = _ImageShards(data, generator, recipe.draw_processes, log)
    rows = drawn.rows("critic_sft.json", make_real, recipe.real, seed)
    second = out / "real" / "final"
    if not (second / "prompt_set").exists():
        settings = sft_settings(recipe.real_learning_rate, recipe, ordered=False)
        train(first, SftData(RowSet(rows, data)), out / "real", settings, PROMPT_SET, log)
    latest = second
    for number in range(recipe.rounds):
        name, seed = f"critic_mistakes_{number}_sft.json", recipe.seed * 10_000 + 1000 * (number + 1)
        rows = drawn.rows(name, make_mistakes, recipe.mistakes, seed)
        finished = out / f"mistakes_{number}" / "final"
        if not (finished / "prompt_set").exists():
            settings = sft_settings(recipe.last_learning_rate, recipe, ordered=False)
            train(latest, SftData(RowSet(rows, data)), finished.parent, settings, PROMPT_SET, log)
        latest = finished
    return publish(latest, out)

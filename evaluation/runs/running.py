"""Runs the items of a benchmark, each in a separate folder, with the engine that generates trajectories.

Resuming, shards and workers are entirely handled by that engine. An item's folder is named by a digest of its
id, since the id can be any text. Seed and shard depend on the id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.generators.protocol import max_reference_images
from ...backend.prompts.published import ENDING
from ...backend.types import RunSettings
from ...training.data.executors import Executor
from ...training.data.rows.sft import RowProblem
from ...training.data.trajectories.engine import Log, Trajectories, TrajectoriesReport
from ...training.data.trajectories.options import TrajectoryOptions
from ...training.data.trajectories.prompt_rows import Prompt, PromptRow, Shard, of_shard
from ...training.data.trajectories.unit import OpenTeachers, Teachers
from ...training.data.trajectories.usage import Prices
from ..benchmarks.base.benchmark import BenchmarkItem
from .settings import ITEMS

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")
MAX_CATEGORY = 200


class ItemRow(PromptRow):
    """An item in the form that the engine expects."""

    @property
    def folder(self) -> str:
        """Name of the folder below `OUT/items`."""
        return hashlib.blake2b(self.id.encode(), digest_size=12).hexdigest()


def row_of(item: BenchmarkItem, published_input: bool = False) -> ItemRow:
    """Return the row of an item."""
    name = item.id
    if not PLAIN.fullmatch(name):
        name = f"x-{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"
    text = item.text.replace(ENDING, "") if published_input else item.text
    return ItemRow(id=name, user_input=text, category=item.category[:MAX_CATEGORY])


@dataclass(frozen=True)
class ItemPrompts:
    """The items in the form that the engine expects."""

    items: Sequence[BenchmarkItem]
    published_input: bool = False

    def read(self) -> tuple[list[Prompt], list[RowProblem]]:
        """Return all items; none can be invalid."""
        rows = [row_of(item, self.published_input) for item in self.items]
        pairs = zip(rows, self.items, strict=True)
        return [Prompt(row, item.images, item.steps, item.cast) for row, item in pairs], []


@dataclass(frozen=True)
class ShowingImages:
    """Opens models and checks that their generators accept several images. Can be pickled if `opens` can."""

    opens: OpenTeachers

    def __call__(self) -> Teachers:
        """Open the models.

        Raises:
            SettingsError: If a generator accepts only one image. Errors of `opens` pass through.
        """
        teachers = self.opens()
        for name, generator in teachers.generators:
            if not max_reference_images(generator):
                raise SettingsError(
                    "This benchmark passes images of its characters to the generator, but "
                    f"{name} accepts only one image.",
                    "Choose a --generator that accepts several: FLUX.2, Qwen-Image-Edit-Plus, "
                    "images:MODEL@URL, gemini:MODEL.",
                )
        return teachers


@dataclass(frozen=True)
class BenchmarkRun:
    """Runs items below `out`. `options` contains the shard, time limit and retries."""

    out: Path
    teachers: OpenTeachers
    settings: RunSettings
    options: TrajectoryOptions
    executor: Executor
    log: Log = print
    prices: Prices = field(default_factory=dict)

    def part(self, items: Sequence[BenchmarkItem], published_input: bool = False) -> list[Prompt]:
        """Return the items of this shard.

        Raises:
            SettingsError: If the shard is invalid.
        """
        prompts, _ = ItemPrompts(items, published_input).read()
        return of_shard(prompts, Shard.read(self.options.shard), None)

    def carry_out(self, items: Sequence[BenchmarkItem], published_input: bool = False) -> TrajectoriesReport:
        """Run all unfinished items; other processes can help. Raises the errors of `Trajectories.make`."""
        engine = Trajectories(
            self.out / ITEMS,
            self.teachers,
            self.options,
            self.executor,
            self.prices,
            settings=self.settings,
            log=self.log,
            shared=True,
        )
        return engine.make(ItemPrompts(items, published_input))

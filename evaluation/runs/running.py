"""A benchmark's items carried out: each a run in a folder of its own, by the engine that makes trajectories.

Decision: nothing of going on after a kill, of shards or of workers is done here a second time. An item's
folder is named by a digest of its id, which may be anything; its seed and shard go by the id.
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
    """An item as the engine takes it."""

    @property
    def folder(self) -> str:
        """Below `OUT/items`."""
        return hashlib.blake2b(self.id.encode(), digest_size=12).hexdigest()


def row_of(item: BenchmarkItem, published_input: bool = False) -> ItemRow:
    """The row of an item."""
    name = item.id
    if not PLAIN.fullmatch(name):
        name = f"x-{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"
    text = item.text.replace(ENDING, "") if published_input else item.text
    return ItemRow(id=name, user_input=text, category=item.category[:MAX_CATEGORY])


@dataclass(frozen=True)
class ItemPrompts:
    """The items as the engine asks for them."""

    items: Sequence[BenchmarkItem]
    published_input: bool = False

    def read(self) -> tuple[list[Prompt], list[RowProblem]]:
        rows = [row_of(item, self.published_input) for item in self.items]
        pairs = zip(rows, self.items, strict=True)
        return [Prompt(row, item.images, item.steps) for row, item in pairs], []


@dataclass(frozen=True)
class ShowingImages:
    """Opens models whose generators can be shown several images; can be pickled as far as `opens` can."""

    opens: OpenTeachers

    def __call__(self) -> Teachers:
        """Raises SettingsError for a generator that is shown one image alone, and as `opens` does."""
        teachers = self.opens()
        for name, generator in teachers.generators:
            if not max_reference_images(generator):
                raise SettingsError(
                    "This benchmark shows every step the images of its characters, "
                    f"and {name} is shown one image alone.",
                    "Give a --generator that takes several: FLUX.2, Qwen-Image-Edit-Plus, images:MODEL@URL.",
                )
        return teachers


@dataclass(frozen=True)
class BenchmarkRun:
    """Carries out items below `out`; `shard`, time and retries are `options`'."""

    out: Path
    teachers: OpenTeachers
    settings: RunSettings
    options: TrajectoryOptions
    executor: Executor
    log: Log = print
    prices: Prices = field(default_factory=dict)

    def part(self, items: Sequence[BenchmarkItem], published_input: bool = False) -> list[Prompt]:
        """What the engine will carry out of these items: those of its shard. Raises SettingsError."""
        prompts, _ = ItemPrompts(items, published_input).read()
        return of_shard(prompts, Shard.read(self.options.shard), None)

    def carry_out(self, items: Sequence[BenchmarkItem], published_input: bool = False) -> TrajectoriesReport:
        """What is not done yet, beside any other process that does the same. Raises as Trajectories.make."""
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

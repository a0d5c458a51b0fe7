"""Runs the items of a benchmark, each in a separate folder below `OUT/items`, and records the settings.

Everything that changes a figure is written to `OUT/benchmark.json` before the first item, including the
version of this package, and must be the same when a folder is continued. All figures of a folder then belong
to one setting. Only the number of items may grow, because items do not influence each other.

Resuming, shards and workers are entirely handled by the engine that generates trajectories. An item's folder
is named by a digest of its id, since the id can be any text. Seed and shard depend on the id.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...backend.core.errors import SettingsError
from ...backend.core.files.atomic import write_text
from ...backend.core.files.bounded_reader import read_json
from ...backend.core.prompts.prompt_set import ENDING
from ...backend.core.types import RunSettings
from ...backend.core.types.values import DIRECT
from ...backend.pipeline.as_published import BENCHMARK_SETTINGS
from ..benchmarks import open_benchmark
from ..benchmarks.benchmark import Benchmark, BenchmarkData, BenchmarkItem
from ..data.trajectories import (
    Log,
    OpenTeachers,
    Prompt,
    PromptRow,
    Trajectories,
    TrajectoriesReport,
    TrajectoryOptions,
)

FILE = "benchmark.json"
ITEMS = "items"
MAX_FILE = 1024 * 1024
FREE = frozenset({"data", "images", "limit"})
"""Settings that may differ when a folder is continued: paths, and the number of items."""

Preset = Literal["ours", "paper", "released"]
PUBLISHED_PRESET: Preset = "released"
PRESETS: dict[Preset, dict[str, Any]] = {
    "ours": {"max_attempts": 3, "keep": "best", "judge_last": True},
    **BENCHMARK_SETTINGS,
}
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")
MAX_CATEGORY = 200
ROOT = Path(__file__).resolve().parents[2]
GIT_SECONDS = 10.0
UNKNOWN = "unknown"


class BenchmarkOptions(BaseModel):
    """Options of a benchmark run."""

    model_config = ConfigDict(extra="forbid")

    preset: Preset = Field(
        default="ours",
        description="ours: 3 attempts, the best is kept. paper: 5 attempts, the last is kept and not judged. "
        "released: as paper, but 3 attempts, like the published code (whose seeds differ); UEval's texts are "
        "joined as there.",
        json_schema_extra=DIRECT,
    )
    max_attempts: int | None = Field(
        default=None, ge=1, le=100, description="Attempts per step. Default: that of the preset."
    )
    seed: int = Field(
        default=0, ge=0, le=2**48, description="Base seed; each item derives its own seed from it."
    )
    split: str = Field(default="", description="Run only this category, task or dimension of the data.")
    limit: int | None = Field(
        default=None,
        ge=1,
        description="Run only the first N items. The number can grow in the same folder.",
        json_schema_extra=DIRECT,
    )
    published_input: bool = Field(
        default=False,
        description=f"Remove {ENDING!r} from questions, as the published runner does. "
        "Always on with the preset released.",
    )
    one_image: bool = Field(
        default=False, description="Request plans with exactly one step, for benchmarks of single images."
    )

    @model_validator(mode="after")
    def _as_preset(self) -> BenchmarkOptions:
        self.published_input = self.published_input or self.preset == PUBLISHED_PRESET
        return self

    def run_settings(self) -> RunSettings:
        """Return the settings of the loop."""
        given = PRESETS[self.preset] | ({"max_attempts": self.max_attempts} if self.max_attempts else {})
        return RunSettings.model_validate({"seed": self.seed, **given})


class BenchmarkSettings(BaseModel):
    """Content of benchmark.json.

    Attributes:
        models: Planner, critic and generator as given by the user.
        commit: Commit of this package, if it is a checkout.
    """

    model_config = ConfigDict(extra="ignore")

    benchmark: str
    data: str = ""
    images: str = ""
    data_digest: str
    split: str = ""
    limit: int | None = None
    models: dict[str, Any]
    preset: str
    settings: RunSettings
    published_input: bool = False
    one_image: bool = False
    version: str
    commit: str

    @property
    def as_published(self) -> bool:
        """Whether answers are joined like in the published runner."""
        return self.preset == PUBLISHED_PRESET

    def where(self) -> BenchmarkData:
        """Return the data as given by the user."""
        return BenchmarkData(
            Path(self.data) if self.data else None, Path(self.images) if self.images else None, self.split
        )


def take_folder(out: Path, setting: BenchmarkSettings) -> None:
    """Write the settings to a new folder, or check that they equal those of an existing one.

    Raises:
        SettingsError: If the settings differ or the folder cannot be used.
    """
    path = out / FILE
    if os.path.exists(path):
        before, now = read_setting(out).model_dump(), setting.model_dump()
        other = [name for name in now if name not in FREE and before[name] != now[name]]
        if other:
            raise SettingsError(
                f"{str(out)!r} was started with other {other[0].replace('_', ' ')}: "
                f"{_short(before[other[0]])}, not {_short(now[other[0]])}.",
                "Use another --out, or the same settings.",
            )
    elif _holds_anything(out):
        raise SettingsError(f"The folder {str(out)!r} contains other files.", "Use a new folder as --out.")
    write_text(path, setting.model_dump_json(indent=1) + "\n", SettingsError, "Setting")


def _holds_anything(out: Path) -> bool:
    try:
        return any(out.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SettingsError(
            f"Cannot use the folder {str(out)!r}: {error.strerror or error}.",
            "Use another folder as --out.",
        ) from error


def _short(value: object) -> str:
    return json.dumps(value)[:200]


def read_setting(out: Path) -> BenchmarkSettings:
    """Read the settings of a folder.

    Raises:
        SettingsError: If they are missing or damaged.
    """
    content = read_json(out / FILE, SettingsError, "Benchmark folder's setting", MAX_FILE)
    try:
        return BenchmarkSettings.model_validate(content)
    except ValidationError as error:
        raise SettingsError(
            f"{str(out / FILE)!r} is damaged.", "Pass the --out folder of a benchmark, or start a new one."
        ) from error


def items_of(benchmark: Benchmark, setting: BenchmarkSettings) -> list[BenchmarkItem]:
    """Return the items that the settings select.

    Raises:
        SettingsError: If the data cannot be read or has changed.
    """
    items = benchmark.items(setting.where())
    if digest_of(items) != setting.data_digest:
        raise SettingsError(
            f"The data at {setting.data!r} has changed since this folder was started.",
            "Use the original data, or start a new folder.",
        )
    return items[: setting.limit]


def digest_of(items: Sequence[BenchmarkItem]) -> str:
    """Return a digest of ids, texts, categories, and images by name and size."""
    digest = hashlib.blake2b(digest_size=16)
    for item in items:
        images = [(path.name, path.stat().st_size) for path in item.images]
        digest.update(json.dumps([item.id, item.text, item.category, images]).encode())
    return digest.hexdigest()


def open_folder(out: Path) -> tuple[BenchmarkSettings, Benchmark, list[BenchmarkItem]]:
    """Open the folder of a benchmark.

    Raises:
        SettingsError: If the settings or the data cannot be used.
    """
    setting = read_setting(out)
    benchmark = open_benchmark(setting.benchmark)
    return setting, benchmark, items_of(benchmark, setting)


def commit(root: Path = ROOT) -> str:
    """Return the commit of the checkout at `root`, or "unknown" if it is not a checkout or git fails.

    When installed inside another repository (ComfyUI, a site), git would report that repository's commit.
    """
    if not (root / ".git").exists():
        return UNKNOWN
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    # In a repository without commits git prints its argument, and fails.
    return UNKNOWN if found.returncode else found.stdout.strip()


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
class BenchmarkRun:
    """Runs items below `out`. `options` contains the shard and retries."""

    out: Path
    teachers: OpenTeachers
    settings: RunSettings
    options: TrajectoryOptions
    parallel: int = 1
    log: Log = print

    def carry_out(self, items: Sequence[BenchmarkItem], published_input: bool = False) -> TrajectoriesReport:
        """Run all unfinished items; other processes can help. Raises the errors of `Trajectories.make`."""
        engine = Trajectories(
            self.out / ITEMS,
            self.teachers,
            self.options,
            self.parallel,
            settings=self.settings,
            log=self.log,
        )
        prompts = [Prompt(row_of(one, published_input), one.images) for one in items]
        return engine.make(prompts)

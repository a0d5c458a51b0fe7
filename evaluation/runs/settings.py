"""How a benchmark is run, and the file that says it: `OUT/benchmark.json`.

Decisions. Everything that changes a number is written down before the first item and must be the same
whenever a folder is continued, the version of this package included: figures of a folder are then
figures of one setting. How many items are wanted may grow, since each is the same run in any company.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...backend.errors import SettingsError
from ...backend.files.atomic import remove, write_text
from ...backend.files.bounded_reader import read_json
from ...backend.prompts.published import ENDING
from ...backend.types import RunSettings
from ..benchmarks import open_benchmark
from ..benchmarks.base.benchmark import Benchmark, BenchmarkData, BenchmarkItem

FILE = "benchmark.json"
ITEMS = "items"
MAX_FILE = 1024 * 1024
FREE = frozenset({"data", "images", "limit"})
"""What may differ when a folder is continued: paths (the data's digest may not), and how many items."""

Preset = Literal["ours", "paper", "released"]
PUBLISHED_PRESET: Preset = "released"
PRESETS: dict[Preset, dict[str, Any]] = {
    "ours": {"max_attempts": 3, "keep": "best", "judge_last": True},
    "paper": {"max_attempts": 5, "keep": "last", "judge_last": False},
    "released": {"max_attempts": 3, "keep": "last", "judge_last": False},
}


class BenchmarkOptions(BaseModel):
    """What is asked, and how often it is drawn."""

    model_config = ConfigDict(extra="forbid")

    preset: Preset = Field(
        default="ours",
        description="ours: 3 attempts, the best kept. paper: 5, the last kept and not judged. released: 3, "
        "likewise, as the published code does (its seeds are its own); UEval's texts are joined as there.",
    )
    max_attempts: int | None = Field(
        default=None, ge=1, le=100, description="Draws of a step at most; by default as the preset says."
    )
    seed: int = Field(default=0, ge=0, le=2**48, description="Base seed; every item gets its own from it.")
    split: str = Field(default="", description="Only this category, task or dimension of the data.")
    limit: int | None = Field(
        default=None, ge=1, description="Only the first so many items; may grow in the same folder."
    )
    published_input: bool = Field(
        default=False,
        description=f"Leave {ENDING!r} out of questions, as the published runner; "
        "the preset released always does.",
    )
    one_image: bool = Field(
        default=False, description="Ask the planner for exactly one step, for benchmarks of one image."
    )

    @model_validator(mode="after")
    def _as_preset(self) -> BenchmarkOptions:
        self.published_input = self.published_input or self.preset == PUBLISHED_PRESET
        return self

    def run_settings(self, shows_images: bool = False) -> RunSettings:
        """As the loop takes them; `shows_images`: every step is shown the request's images and all earlier
        ones, as far as the generator's model takes them."""
        given = PRESETS[self.preset] | ({"max_attempts": self.max_attempts} if self.max_attempts else {})
        given |= {"source": "all"} if shows_images else {}
        return RunSettings.model_validate({"seed": self.seed, **given})


class BenchmarkSettings(BaseModel):
    """The content of the file; `models`: what was typed of planner, critic and generator; `commit`: of this
    package, where it is a checkout."""

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
        """Whether answers are put together as by the published runner."""
        return self.preset == PUBLISHED_PRESET

    def where(self) -> BenchmarkData:
        """The data as it was given."""
        return BenchmarkData(
            Path(self.data) if self.data else None, Path(self.images) if self.images else None, self.split
        )


def take_folder(out: Path, setting: BenchmarkSettings) -> bool:
    """Write the setting into a new folder, or check that a folder's is the same; whether it is new. Raises
    SettingsError."""
    path = out / FILE
    is_new = not os.path.exists(path)
    if not is_new:
        before, now = read_setting(out).model_dump(), setting.model_dump()
        other = [name for name in now if name not in FREE and before[name] != now[name]]
        if other:
            raise SettingsError(
                f"{str(out)!r} was begun with another {other[0].replace('_', ' ')}: "
                f"{_short(before[other[0]])}, not {_short(now[other[0]])}.",
                "Give another --out, or the same setting.",
            )
    elif _holds_anything(out):
        raise SettingsError(f"{str(out)!r} holds other files.", "Give a new folder as --out.")
    write_text(path, setting.model_dump_json(indent=1) + "\n", SettingsError, "Setting")
    return is_new


def give_folder_back(out: Path) -> None:
    """Undo `take_folder` on a new folder. Raises SettingsError."""
    remove(out / FILE, SettingsError, "Setting")


def _holds_anything(out: Path) -> bool:
    try:
        return any(out.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SettingsError(
            f"{str(out)!r} is no folder that can be used ({error.strerror or error}).",
            "Give another as --out.",
        ) from error


def _short(value: object) -> str:
    return json.dumps(value)[:200]


def read_setting(out: Path) -> BenchmarkSettings:
    """The setting of a folder; raises SettingsError."""
    content = read_json(out / FILE, SettingsError, "Benchmark folder's setting", MAX_FILE)
    try:
        return BenchmarkSettings.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"{str(out / FILE)!r} is damaged.", "Give the --out of a benchmark.") from error


def items_of(benchmark: Benchmark, setting: BenchmarkSettings) -> list[BenchmarkItem]:
    """The items that the setting wants; raises SettingsError, also for data that has changed since."""
    items = benchmark.items(setting.where())
    if digest_of(items) != setting.data_digest:
        raise SettingsError(
            f"The data at {setting.data!r} is not what this folder was begun with.",
            "Give the same data, or begin another folder.",
        )
    return items[: setting.limit]


def digest_of(items: Sequence[BenchmarkItem]) -> str:
    """Digest of all that is asked: ids, texts, categories, and images by name and size."""
    digest = hashlib.blake2b(digest_size=16)
    for item in items:
        images = [(path.name, path.stat().st_size) for path in item.images]
        digest.update(json.dumps([item.id, item.text, item.category, images]).encode())
    return digest.hexdigest()


def open_folder(out: Path) -> tuple[BenchmarkSettings, Benchmark, list[BenchmarkItem]]:
    """What a benchmark's folder is about; raises SettingsError."""
    setting = read_setting(out)
    benchmark = open_benchmark(setting.benchmark)
    return setting, benchmark, items_of(benchmark, setting)

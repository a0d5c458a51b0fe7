"""Generates all requests of a taxonomy in one order, with a report.

Sub-categories alternate by their weights, so that a shorter file is the beginning of a longer one. A
sub-category without further rows is skipped and named in the report.
"""

from __future__ import annotations

import heapq
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....backend.errors import SettingsError
from ....backend.files.atomic import write_text, writing
from .banks import FOLDER as BANKS
from .banks import read_banks
from .rows import GeneratedRow
from .settings import PROMPTS, REPORT, PromptsData
from .taxonomy import SHIPPED, Taxonomy, read_taxonomy
from .walk import Walk, WalkSettings

if TYPE_CHECKING:
    from ..decontamination.index import BenchmarkIndex

IMAGES = (".png", ".jpg", ".jpeg", ".webp")
MAX_IMAGES = 100_000


@dataclass
class PromptsReport:
    """Report of a run."""

    rows: int = 0
    by_category: Counter[str] = field(default_factory=Counter)
    by_subcategory: Counter[str] = field(default_factory=Counter)
    by_split: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    by_template_of: list[Counter[str]] = field(default_factory=list)
    capacity: dict[str, int] = field(default_factory=dict)
    dropped_by_subcategory: dict[str, Counter[str]] = field(default_factory=dict)
    exhausted: list[str] = field(default_factory=list)
    guarded: Counter[str] = field(default_factory=Counter)

    def take(self, row: GeneratedRow) -> None:
        """Count a row."""
        self.rows += 1
        self.by_category[row.category] += 1
        self.by_subcategory[row.subcategory] += 1
        self.by_split[row.split] += 1
        constraints = row.constraints
        self.asked["step_count"] += constraints.step_count > 0
        self.asked["captions"] += constraints.captions != "as asked"
        self.asked["drawn_words"] += bool(constraints.drawn_words)
        self.asked["text_ending"] += constraints.text_ending
        self.asked["image"] += bool(row.user_input_image)

    def as_json(self) -> dict[str, Any]:
        """Return the report as it is written."""
        return {
            "rows": self.rows,
            "by_category": dict(self.by_category),
            "by_subcategory": dict(self.by_subcategory),
            "by_split": dict(self.by_split),
            "shares": {name: round(count / max(1, self.rows), 4) for name, count in self.asked.items()},
            "dropped": dict(sum(self.dropped_by_subcategory.values(), Counter(self.dropped))),
            "dropped_by_subcategory": {name: dict(by) for name, by in self.dropped_by_subcategory.items()},
            "exhausted": self.exhausted,
            "taken_from_a_benchmark": dict(self.guarded),
            "capacity": self.capacity,
            "by_template": dict(sorted(sum(self.by_template_of, Counter[str]()).items())),
        }


def load(settings: PromptsData) -> Taxonomy:
    """Return the taxonomy of the settings with its banks.

    Raises:
        SettingsError: It does not exist or is invalid.
    """
    banks = read_banks([BANKS, *([settings.words] if settings.words else [])])
    if settings.taxonomy is None and settings.language not in SHIPPED:
        raise SettingsError(
            f"The built-in taxonomy does not support the language {settings.language[:20]!r} "
            f"(available: {', '.join(SHIPPED)}).",
            "Give a taxonomy with --taxonomy FILE.yaml, or let a model translate with --polish CHAT.",
        )
    return read_taxonomy(settings.taxonomy or SHIPPED[settings.language], banks)


def images_in(folder: Path | None, out: Path) -> list[str]:
    """Return the images of a folder, with paths for rows in `out`.

    Raises:
        SettingsError: The folder does not exist or has no images.
    """
    if folder is None:
        return []
    if not folder.is_dir():
        raise SettingsError(f"The folder {str(folder)!r} does not exist.", "Give a folder of images.")
    found = sorted(one for one in folder.rglob("*") if one.suffix.lower() in IMAGES and one.is_file())
    if not found:
        raise SettingsError(
            f"Folder {str(folder)!r} does not contain images.", f"Add files with {', '.join(IMAGES)}."
        )
    return [Path(os.path.relpath(one.resolve(), out.resolve())).as_posix() for one in found[:MAX_IMAGES]]


def rows_of(
    taxonomy: Taxonomy,
    settings: PromptsData,
    weights: Mapping[str, float],
    images: Sequence[str],
    made: PromptsReport,
) -> Iterator[GeneratedRow]:
    """Yield requests until every sub-category is exhausted; `made` counts what was left out.

    `weights` are by sub-category or main category, with a default of 1.

    Raises:
        SettingsError: A weight has an unknown name.
    """
    walking = WalkSettings(settings.seed, settings.variants, taxonomy, images)
    names = {sub.key for sub in taxonomy.subcategories} | {sub.category for sub in taxonomy.subcategories}
    for name in weights:
        if name not in names:
            raise SettingsError(
                f"{name[:40]!r} is not a category of this taxonomy.",
                f"Use one of {', '.join(sorted(names))}.",
            )
    walks = [Walk(sub, walking) for sub in taxonomy.subcategories]
    running = [iter(walk) for walk in walks]
    shares = [_weight(weights, walk) for walk in walks]
    turns = [(1 / share, place, 1) for place, share in enumerate(shares) if share > 0]
    heapq.heapify(turns)
    texts: set[str] = set()
    for walk in walks:
        made.capacity[walk.subcategory.key] = walk.capacity
        made.dropped_by_subcategory[walk.subcategory.key] = walk.dropped
        made.by_template_of.append(walk.by_template)
    while turns:
        _, place, number = heapq.heappop(turns)
        for row in running[place]:
            text = row.id.rpartition("-")[2]
            if text in texts:
                made.dropped["equal text in another sub-category"] += 1
                continue
            texts.add(text)
            heapq.heappush(turns, ((number + 1) / shares[place], place, number + 1))
            yield row
            break
        else:
            made.exhausted.append(walks[place].subcategory.key)


def _weight(weights: Mapping[str, float], walk: Walk) -> float:
    sub = walk.subcategory
    return weights.get(sub.key, weights.get(sub.category, 1.0))


def write_prompts(
    settings: PromptsData,
    weights: Mapping[str, float],
    out: Path,
    guard: BenchmarkIndex | None = None,
    reword: Callable[[GeneratedRow], GeneratedRow] | None = None,
) -> PromptsReport:
    """Write `prompts.jsonl` and `prompts.report.json` to a folder; both appear only when complete.

    Rows that the guard finds in a benchmark are left out and replaced by the next ones. `reword` may change a
    row before it is written.

    Raises:
        SettingsError: The settings or files cannot be used.
    """
    taxonomy = load(settings)
    made = PromptsReport()
    rows = rows_of(taxonomy, settings, weights, images_in(settings.images, out), made)
    with writing(out / PROMPTS, SettingsError, "Requests") as temporary, temporary.open("wb") as file:
        for row in rows:
            finding = guard.finding(row.user_input) if guard else None
            if finding:
                made.guarded[finding.benchmark] += 1
                continue
            made.take(row)
            file.write((reword(row) if reword else row).line().encode())
            if made.rows == settings.count:
                break
    report = {"settings": settings.model_dump(mode="json"), "weights": dict(weights), **made.as_json()}
    report["guard"] = "checked" if guard else "not checked"
    write_text(out / REPORT, json.dumps(report, indent=1, ensure_ascii=False), SettingsError, "Report")
    return made

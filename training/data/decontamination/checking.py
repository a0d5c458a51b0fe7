"""Compares files of training data with the guard, to find rows taken from a benchmark.

All files of this package are checked in the same way (requests, conversations, rows of GRPO, external sets):
a row's text is all of its texts, and its images are those that can be found. The report counts images that
could not be checked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....backend.errors import PictureError, SettingsError
from ....backend.pictures import Picture
from .benchmarks import MAX_IMAGES, MAX_TEXT, rows_of
from .index import BenchmarkIndex
from .items import BenchmarkMatch
from .screening import finding_in

TEXTS = [
    "user_input",
    "original_input",
    "origin_prompt",
    "rewritten_prompt",
    "prompt",
    "Prompt",
    "question",
    "instruction",
    "text",
    "title",
    "summary_info",
]
IMAGES = ("user_input_image", "images", "image", "origin_image_path", "edited_image_path", "image_path")
IDS = ("data_id",)
MAX_LISTED = 10_000
_TEST_FILE = re.compile(r"(^|[^a-z])test([^a-z]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class RowMatch:
    """A row that is also in a benchmark: its number, counted from 1, and its id, if it has one."""

    row: int
    id: str
    finding: BenchmarkMatch


@dataclass
class CheckReport:
    """Result of checking a file."""

    rows: int = 0
    images: int = 0
    missing_images: int = 0
    found: list[RowMatch] = field(default_factory=list)
    by_benchmark: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """Return the report as it is written to a file."""
        listed = [
            {
                "row": one.row,
                "id": one.id,
                "benchmark": one.finding.benchmark,
                "how": one.finding.how,
                "detail": one.finding.detail,
            }
            for one in self.found
        ]
        return {
            "rows": self.rows,
            "images": self.images,
            "missing_images": self.missing_images,
            "by_benchmark": dict(sorted(self.by_benchmark.items())),
            "found": listed,
        }


def check_file(guard: BenchmarkIndex, path: Path, images: Path | None = None) -> CheckReport:
    """Compare every row of a file with the guard; images are looked for next to the file and in `images`.

    Raises:
        SettingsError: The file cannot be read.
    """
    report = CheckReport()
    for number, row in enumerate(rows_of(path), start=1):
        report.rows += 1
        texts, names, ids = row_parts(row)
        finding = finding_in(guard, texts, _pictures(names, path, images, report), ids)
        if finding:
            report.by_benchmark[finding.benchmark] += 1
            if len(report.found) < MAX_LISTED:
                name = row.get("id", row.get("data_id", "")) if isinstance(row, dict) else ""
                report.found.append(RowMatch(number, str(name)[:80], finding))
    return report


def row_parts(row: Any) -> tuple[list[str], list[str], list[str]]:
    """Return (texts, image names, source ids) of a row of any kind."""
    if isinstance(row, str):
        return [row[:MAX_TEXT]], [], []
    if not isinstance(row, dict):
        return [], [], []
    texts = [row[name][:MAX_TEXT] for name in TEXTS if isinstance(row.get(name), str)]
    for turn in row["messages"][:100] if isinstance(row.get("messages"), list) else ():
        if isinstance(turn, dict) and turn.get("role") != "system" and isinstance(turn.get("content"), str):
            texts.append(turn["content"][:MAX_TEXT])
    names = [one for name in IMAGES for one in _names(row.get(name))]
    for step in row["step_info"][:100] if isinstance(row.get("step_info"), list) else ():
        for part in step[:100] if isinstance(step, list) else ():
            if isinstance(part, dict) and isinstance(part.get("content"), str):
                texts.append(part["content"][:MAX_TEXT])
            if isinstance(part, dict):
                names += _names(part.get("image_path"))
    ids = [str(row[name])[:200] for name in IDS if isinstance(row.get(name), (str, int))]
    return texts, names[:MAX_IMAGES], ids


def check_training_source(path: Path, ids: list[str], guard: BenchmarkIndex | None = None) -> None:
    """Check that a file of CoMM is not its test file, which models are compared on.

    The test file is recognized by its name, or by ids that the guard knows.

    Raises:
        SettingsError: It is the test file.
    """
    hint = "It is used to compare models. Use CoMM's training file instead."
    if _TEST_FILE.search(path.stem):
        raise SettingsError(f"{str(path)!r} has the name of a test file, which must not be trained on.", hint)
    known = guard.known_ids(ids, "comm") if guard is not None else 0
    if known:
        raise SettingsError(
            f"{str(path)!r} contains {known} item{'s' if known > 1 else ''} of CoMM's test file.", hint
        )


def _names(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, str) and 0 < len(one) < 1000 and "\0" not in one]


def _pictures(names: list[str], path: Path, images: Path | None, report: CheckReport) -> Iterator[Picture]:
    for name in names:
        folder = images or path.parent
        relative = Path(name)
        if relative.is_absolute() or ".." in relative.parts:
            relative = Path(relative.name)
        try:
            picture = Picture.open(folder / relative)
        except PictureError:
            report.missing_images += 1
            continue
        report.images += 1
        yield picture

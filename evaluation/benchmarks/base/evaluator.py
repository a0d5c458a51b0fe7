"""What an official evaluator is to whoever runs it: files of a checkout, packages, and jobs for a submission.

Decisions. Data that an evaluator reads beside the submission is written anew from the user's, for the items
of the run alone: a part of a benchmark is then judged as such, and nothing is asked about items that were
never run. Where an evaluator asks one question after the other, copies of it are first given a part each: the
answers are then there when it is run on the whole, in its own way, for its own figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ....backend.errors import SettingsError
from ....backend.files.atomic import write_text
from .benchmark import BenchmarkData, BenchmarkItem
from .processes import EvaluatorJob

MIN_A_PART = 8
MAX_PARTS = 8
MAX_FIGURE = 1e12
Row = Mapping[str, Any]


@dataclass(frozen=True)
class EvaluatorPaths:
    """Where an evaluator is run: the user's data, its checkout, an empty folder to work in, the submission,
    the bridge's address and token; `workers` questions at the same time, `seconds` for an answer."""

    data: BenchmarkData
    checkout: Path
    work: Path
    submission: Path
    address: str
    token: str
    workers: int
    seconds: float

    def parts(self, items: Sequence[BenchmarkItem]) -> list[Sequence[BenchmarkItem]]:
        """The items dealt out to copies of an evaluator; none where there are few."""
        number = min(self.workers, MAX_PARTS, len(items) // MIN_A_PART)
        return [items[at::number] for at in range(number)] if number > 1 else []


@dataclass(frozen=True)
class EvaluatorPlan:
    """Jobs that are run side by side before all, jobs that are run one after the other then, where the
    results are, and what the evaluator itself makes of them."""

    whole: Sequence[EvaluatorJob]
    results: Path
    figures: Callable[[], Mapping[str, float]]
    parts: Sequence[EvaluatorJob] = field(default_factory=tuple)


class Evaluator(Protocol):
    """An evaluator. `files`: what its checkout has; `needs`: packages that are imported."""

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def needs(self) -> tuple[str, ...]: ...

    def plan(
        self, place: EvaluatorPaths, items: Sequence[BenchmarkItem], rows: Mapping[str, Row]
    ) -> EvaluatorPlan:
        """What is to be run for these items, whose rows in the data are `rows`. Raises SettingsError."""
        ...


def write_json(path: Path, content: Any) -> Path:
    """Write a file for an evaluator; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, ensure_ascii=False) + "\n", SettingsError, "Evaluator's data")
    return path


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    """Write JSON lines for an evaluator; returns their path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_text(path, lines, SettingsError, "Evaluator's data")
    return path


def link(path: Path, target: Path) -> Path:
    """A link to a file or folder, under a name that an evaluator looks for; returns it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.symlink_to(target.resolve())
    except OSError as error:
        raise SettingsError(f"{str(path)!r} cannot be made ({error.strerror or error}).") from error
    return path


def numbers_in(content: Any, names: Mapping[str, str]) -> dict[str, float]:
    """Of an evaluator's summary the numbers of these names, as they are to be called; what is not finite is
    none."""
    found = {shown: content.get(name) for name, shown in names.items()} if isinstance(content, dict) else {}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_FIGURE
    }

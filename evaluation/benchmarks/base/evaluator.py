"""Interface of an official evaluator: files of its checkout, required packages, and jobs for a submission.

The data that an evaluator reads in addition to the submission is rewritten for the items of the run only. It
then scores part of a benchmark as such and asks nothing about items that were not run. An evaluator that asks
its questions one by one is first run in several copies on parts of the items. Their answers are cached, so
the run over all items finishes quickly and computes the evaluator's own figures.
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
    """Paths and settings of an evaluator's run.

    Attributes:
        data: The user's data.
        checkout: Checkout of the evaluator.
        work: Empty working folder.
        submission: Folder of the submission.
        address: URL of the judge bridge.
        token: Key for the judge bridge.
        workers: Number of parallel questions.
        seconds: Timeout of an answer.
    """

    data: BenchmarkData
    checkout: Path
    work: Path
    submission: Path
    address: str
    token: str
    workers: int
    seconds: float

    def parts(self, items: Sequence[BenchmarkItem]) -> list[Sequence[BenchmarkItem]]:
        """Deal the items out to copies of the evaluator; returns no parts if there are few items."""
        number = min(self.workers, MAX_PARTS, len(items) // MIN_A_PART)
        return [items[at::number] for at in range(number)] if number > 1 else []


@dataclass(frozen=True)
class EvaluatorPlan:
    """Jobs of an evaluator and where its results are.

    Attributes:
        whole: Jobs to run one after the other.
        results: Path of the results.
        figures: Returns the figures that the evaluator itself computed.
        parts: Jobs to run in parallel before the others.
    """

    whole: Sequence[EvaluatorJob]
    results: Path
    figures: Callable[[], Mapping[str, float]]
    parts: Sequence[EvaluatorJob] = field(default_factory=tuple)


class Evaluator(Protocol):
    """An official evaluator."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files that its checkout must contain."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Modules that it imports."""
        ...

    def plan(
        self, place: EvaluatorPaths, items: Sequence[BenchmarkItem], rows: Mapping[str, Row]
    ) -> EvaluatorPlan:
        """Return the jobs for these items.

        Args:
            place: Paths and settings.
            items: Items to score.
            rows: Data rows by item id.

        Raises:
            SettingsError: If the data, checkout or submission cannot be used.
        """
        ...


def write_json(path: Path, content: Any) -> Path:
    """Write a JSON file for an evaluator and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, ensure_ascii=False) + "\n", SettingsError, "Evaluator's data")
    return path


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    """Write JSON lines for an evaluator and return their path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_text(path, lines, SettingsError, "Evaluator's data")
    return path


def link(path: Path, target: Path) -> Path:
    """Create a link with a name that the evaluator expects, and return it.

    Raises:
        SettingsError: If the link cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.symlink_to(target.resolve())
    except OSError as error:
        raise SettingsError(f"Cannot create the link {str(path)!r}: {error.strerror or error}.") from error
    return path


def numbers_in(content: Any, names: Mapping[str, str]) -> dict[str, float]:
    """Select finite numbers from an evaluator's summary.

    Args:
        content: The summary.
        names: Names in the summary, with the names to return them under.
    """
    found = {shown: content.get(name) for name, shown in names.items()} if isinstance(content, dict) else {}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_FIGURE
    }

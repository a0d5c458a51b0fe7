"""Interface of a benchmark: items from the user's data, a submission for its evaluator, values from results.

The package contains neither data sets nor evaluators; a benchmark only knows fields, layouts and rules. The
reader of a submission is independent of its writer and does what the official loader does. A mistake of the
writer therefore shows up as an error and not as a plausible number. Everything that the evaluator would skip
silently is reported as a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol

from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ....backend.types import Trajectory
from .item_cast import ItemCast


@dataclass(frozen=True)
class BenchmarkItem:
    """One task of a benchmark.

    Attributes:
        text: Request for the planner.
        images: Input images for the planner.
        category: Group for the figures.
        row: Other fields of the data row.
        steps: Required number of plan steps; 0 leaves it to the planner.
        cast: Its characters and who of them is in each step.
    """

    id: str
    text: str
    images: tuple[Path, ...] = ()
    category: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0
    cast: ItemCast | None = None


@dataclass(frozen=True)
class AnswerStep:
    """One step of an answer.

    Attributes:
        text: Text of the step; empty if it has none.
        picture: Image kept for the step.
        asked: Whether the plan requested an image for the step.
    """

    text: str
    picture: Picture | None = None
    asked: bool = True


@dataclass(frozen=True)
class ItemAnswer:
    """Answer to an item.

    Attributes:
        steps: Steps in order.
        joined: Texts of all steps concatenated without a separator, as in the published runner.
    """

    steps: tuple[AnswerStep, ...]
    joined: str = ""

    @classmethod
    def of(cls, trajectory: Trajectory) -> ItemAnswer:
        """Build the answer from a run: per step its text (or else its instruction) and its image."""
        texts = [result.step.auxiliary_text or result.step.instruction or "" for result in trajectory.results]
        steps = (
            AnswerStep(text.strip(), result.image, bool(result.step.prompt))
            for text, result in zip(texts, trajectory.results, strict=True)
        )
        return cls(tuple(steps), "".join(texts))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Images in the order of the steps."""
        return tuple(step.picture for step in self.steps if step.picture is not None)


Answers = Iterable[tuple[BenchmarkItem, ItemAnswer | None]]
"""Pairs of an item and its answer, or `None` for an item without an answer."""


@dataclass(frozen=True)
class SubmissionPlace:
    """Folder of a submission.

    Attributes:
        folder: Folder to write to.
        shown: Path under which readers of the submission will find the folder.
        as_published: Join texts like the published runner.
    """

    folder: Path
    shown: PurePath
    as_published: bool = False


@dataclass(frozen=True)
class ItemFault:
    """A problem in a submission that the evaluator would fail on, or skip silently."""

    item: str
    reason: str

    def __str__(self) -> str:
        """Format as `ITEM: REASON`."""
        return f"{self.item}: {self.reason}"


@dataclass(frozen=True)
class BenchmarkData:
    """Location of the user's data.

    Attributes:
        path: File or folder.
        images: Folder of the images, if they are not next to the data.
        split: The only category to use; empty for all.
    """

    path: Path | None = None
    images: Path | None = None
    split: str = ""


@dataclass(frozen=True)
class BenchmarkTerms:
    """Facts that users need to know before they run a benchmark.

    Attributes:
        evaluator: Repository @ commit that this package was written for.
        data: Where to get the data.
        licences: License terms.
    """

    title: str
    evaluator: str
    data: str
    licences: str

    def how(self, name: str) -> str:
        """Explain how to get the data of the benchmark `name`."""
        return (
            f"Download it yourself: {self.data} Terms: {self.licences} Then pass --data PATH to "
            f"benchmark {name}."
        )


Values = Mapping[str, float]
"""Values of an item by metric, from 0 to 1."""


class Benchmark(Protocol):
    """A benchmark. All methods raise `SettingsError` for unusable data, submissions or results."""

    @property
    def terms(self) -> BenchmarkTerms:
        """Evaluator, data source and terms."""
        ...

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics; the first is the main one."""
        ...

    @property
    def yes_no(self) -> frozenset[str]:
        """Metrics that are 0 or 1 for every item."""
        ...

    @property
    def optional(self) -> frozenset[str]:
        """Metrics that the evaluator can skip. One without any value gets no figure."""
        ...

    @property
    def shows_images(self) -> bool:
        """Whether the images of an item show its cast, so that the generator must accept references."""
        ...

    @property
    def needs_image(self) -> bool:
        """Whether an answer without an image counts as missing."""
        ...

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return all items, in the order of the data."""
        ...

    def judge_calls(self, item: BenchmarkItem) -> int:
        """Return how often the official evaluator calls its judge for an answer to this item."""
        ...

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write a submission and return notes on what was changed to fit the evaluator."""
        ...

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """Read a submission like the official loader and return its faults."""
        ...

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Return the values of all items that `results`, the output of the evaluator, covers."""
        ...


class BenchmarkTraits:
    """Default traits of a benchmark, described in `Benchmark`; subclasses override those that differ."""

    yes_no: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    shows_images = False
    needs_image = False


def given(results: Path | None, what: str) -> Path:
    """Return the path of the evaluator's results.

    Raises:
        SettingsError: If no path was given.
    """
    if results is None:
        raise SettingsError(
            "This benchmark is scored by its official evaluator, and no results were given.",
            f"Run the evaluator on the submission, then pass --results {what}.",
        )
    return results

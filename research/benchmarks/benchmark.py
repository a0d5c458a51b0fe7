"""Base class of benchmarks: items from the user's data, a submission for its evaluator, values from results.

The package contains neither data sets nor evaluators; a benchmark only knows fields, layouts and rules. The
reader of a submission is independent of its writer and does what the official loader does. A mistake of the
writer therefore shows up as an error and not as a plausible number. Everything that the evaluator would skip
silently is reported as a fault.

The data that an evaluator reads in addition to the submission is rewritten for the items of the run only. It
then scores part of a benchmark as such and asks nothing about items that were not run. An evaluator that asks
its questions one by one is first run in several copies on parts of the items. Their answers are cached, so
the run over all items finishes quickly and computes the evaluator's own figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from ...backend.core.errors import SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.types import Trajectory

MIN_A_PART = 8
MAX_PARTS = 8
LOG = "evaluator.log"
"""Output of an evaluator, in its working folder."""


@dataclass(frozen=True)
class BenchmarkItem:
    """One task of a benchmark.

    Attributes:
        text: Request for the planner.
        images: Input images for the planner.
        category: Group for the figures.
        row: The data row, for the evaluator, or what else the benchmark needs to know about the item.
    """

    id: str
    text: str
    images: tuple[Path, ...] = ()
    category: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)


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
Values = Mapping[str, float]
"""Values of an item by metric, from 0 to 1."""


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

    @property
    def folder(self) -> Path:
        """Folder of the data."""
        path = self.path or Path()
        return path if path.is_dir() else path.parent


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

    @property
    def repository(self) -> str:
        """Repository of the evaluator, as `OWNER/NAME`."""
        return self.evaluator.partition(" @")[0]


@dataclass(frozen=True)
class EvaluatorJob:
    """A file of an evaluator to run.

    Attributes:
        script: The file.
        argv: Its arguments.
        cwd: Folder to run it in.
        path: Folders for `sys.path`.
        kind: How evaluator_child.py runs it.
        more: Additional values for that kind.
        environment: Environment variables that the evaluator reads.
    """

    script: Path
    argv: Sequence[str]
    cwd: Path
    path: Sequence[Path] = ()
    kind: str = "script"
    more: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


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
        """Split the items among several evaluator processes; returns no parts if there are few items."""
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
    parts: Sequence[EvaluatorJob] = ()


class Benchmark:
    """A benchmark. All methods raise `SettingsError` for unusable data, submissions or results.

    Attributes:
        terms: Evaluator, data source and terms.
        metrics: Names of the metrics; the first is the main one.
        yes_no: Metrics that are 0 or 1 for every item.
        needs_image: Whether an answer without an image counts as missing.
        files: Files that a checkout of the evaluator contains; empty if this package cannot run it.
        needs: Modules that the evaluator imports.
    """

    terms: BenchmarkTerms
    metrics: tuple[str, ...]
    yes_no: frozenset[str] = frozenset()
    needs_image = False
    files: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return all items, in the order of the data."""
        raise NotImplementedError

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write a submission and return notes on what was changed to fit the evaluator."""
        raise NotImplementedError

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """Read a submission like the official loader and return its faults."""
        return [fault for item in items if (fault := self.fault(folder, item)) is not None]

    def fault(self, folder: Path, item: BenchmarkItem) -> ItemFault | None:
        """Return what the official loader would fail on for an item of a submission, or skip."""
        raise NotImplementedError

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Return the values of all items that `results`, the output of the evaluator, covers."""
        raise NotImplementedError

    def plan(self, place: EvaluatorPaths, items: Sequence[BenchmarkItem]) -> EvaluatorPlan:
        """Return the jobs of the official evaluator that score these items."""
        raise SettingsError(f"{self.terms.title} has no official evaluator.", "Omit --official.")

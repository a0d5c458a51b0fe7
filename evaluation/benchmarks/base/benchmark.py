"""What a benchmark is to everything that runs, collects and scores: items out of the user's data, a
submission that its evaluator takes, and values out of that evaluator's results.

Decisions. Nothing of a data set or an evaluator ships with the package: a benchmark knows fields, layouts and
rules. Its reader of a submission is written apart from its writer and does what the official loader does, so
that a mistake of the writer shows here and not as a number that looks right. What the evaluator would pass
over in silence is a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol

from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ....backend.types import Trajectory


@dataclass(frozen=True)
class BenchmarkItem:
    """What is asked: the planner gets `text` and `images`; figures are told apart by `category`; `row` is
    what the data says besides; `steps` is how many steps a plan must have, 0 leaves it to the planner."""

    id: str
    text: str
    images: tuple[Path, ...] = ()
    category: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0


@dataclass(frozen=True)
class AnswerStep:
    """A step of an answer: its words, empty where it has none, the picture that it kept, and whether one was
    asked for."""

    text: str
    picture: Picture | None = None
    asked: bool = True


@dataclass(frozen=True)
class ItemAnswer:
    """What came of an item; `joined`: the steps' texts one after the other with nothing between, as the
    published runner puts them together."""

    steps: tuple[AnswerStep, ...]
    joined: str = ""

    @classmethod
    def of(cls, trajectory: Trajectory) -> ItemAnswer:
        """The answer of a run: each step's text, or its instruction where it has none, and its picture."""
        texts = [result.step.auxiliary_text or result.step.instruction or "" for result in trajectory.results]
        steps = (
            AnswerStep(text.strip(), result.image, bool(result.step.prompt))
            for text, result in zip(texts, trajectory.results, strict=True)
        )
        return cls(tuple(steps), "".join(texts))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """In the order of the steps."""
        return tuple(step.picture for step in self.steps if step.picture is not None)


Answers = Iterable[tuple[BenchmarkItem, ItemAnswer | None]]
"""Items with what came of them, None where nothing did."""


@dataclass(frozen=True)
class SubmissionPlace:
    """Where a submission is written, and where it will lie for whoever reads it; `as_published`: texts are
    put together as by the published runner."""

    folder: Path
    shown: PurePath
    as_published: bool = False


@dataclass(frozen=True)
class ItemFault:
    """What the evaluator would stumble over, or pass over in silence, at an item."""

    item: str
    reason: str

    def __str__(self) -> str:
        return f"{self.item}: {self.reason}"


@dataclass(frozen=True)
class BenchmarkData:
    """The user's data: a file or folder, where its images lie if not beside it, and the one category that is
    wanted (empty: all)."""

    path: Path | None = None
    images: Path | None = None
    split: str = ""


@dataclass(frozen=True)
class BenchmarkTerms:
    """What people have to know: the evaluator (repository @ commit that was read), where the data is to be
    had, and under which terms."""

    title: str
    evaluator: str
    data: str
    licences: str

    def how(self, name: str) -> str:
        """What to do where there is no data."""
        return (
            f"Get it yourself: {self.data} Terms: {self.licences} Then give --data PATH to benchmark {name}."
        )


Values = Mapping[str, float]
"""Values of an item by metric, 0 to 1."""


class Benchmark(Protocol):
    """A benchmark; all methods raise SettingsError for data, submissions or results that cannot be used."""

    @property
    def terms(self) -> BenchmarkTerms: ...

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what is measured; the first is the one that counts."""
        ...

    @property
    def yes_no(self) -> frozenset[str]:
        """Metrics that are 0 or 1 for every item."""
        ...

    @property
    def optional(self) -> frozenset[str]:
        """Metrics that the evaluator need not have been asked for: without a value there is no figure."""
        ...

    @property
    def shows_images(self) -> bool:
        """Whether an item's images are references, which a generator must be able to be shown at every
        step."""
        ...

    @property
    def needs_image(self) -> bool:
        """Whether an answer without a picture is none."""
        ...

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """All items, in the data's order."""
        ...

    def judge_calls(self, item: BenchmarkItem) -> int:
        """How often the benchmark's own evaluator asks its judge about an answer of this item."""
        ...

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write a submission; returns what of the answers had to be changed for the evaluator."""
        ...

    def read(self, folder: Path, items: Iterable[BenchmarkItem]) -> list[ItemFault]:
        """Read a submission as the official loader does."""
        ...

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Values of the items that `results`, the evaluator's output, has something about."""
        ...


class BenchmarkTraits:
    """Traits of most benchmarks; a benchmark that differs overrides one. `Benchmark` describes them."""

    yes_no: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    shows_images = False
    needs_image = False


def given(results: Path | None, what: str) -> Path:
    """The evaluator's results; raises SettingsError where none are given."""
    if results is None:
        raise SettingsError(
            "This benchmark is scored by its own evaluator.",
            f"Run it on the submission, then give --results {what}.",
        )
    return results

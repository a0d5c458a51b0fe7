"""Rows and trajectories held against the guard while they become something else: what is left out is counted
and named, in the report of each stage and on the dataset's card.

Decision: a trajectory is held against it with all that it would teach (request, plan, prompts, what the
critic wrote, every picture), so that `data guard check` finds nothing in what is made of the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ....backend.pictures import Picture
from ....backend.types import Trajectory
from .index import BenchmarkIndex, optional_guard
from .items import BenchmarkMatch

MAX_LISTED = 1000


class Screened(BaseModel):
    """What was left out of a set for being in a benchmark: `benchmarks` are items of the index by name,
    `left_out` counts by name, `found` says where (at most MAX_LISTED) and what was the same."""

    model_config = ConfigDict(extra="ignore")

    benchmarks: dict[str, int] = {}
    left_out: dict[str, int] = {}
    found: dict[str, str] = {}

    def as_line(self) -> str:
        """The counts in words."""
        counts = ", ".join(f"{name} {count}" for name, count in self.left_out.items()) or "nothing"
        known = ", ".join(f"{name} ({items} items)" for name, items in self.benchmarks.items())
        return f"held against {known or 'an empty index'}; left out: {counts}"


class Screening:
    """Asks a guard, if there is one, and remembers what it found."""

    def __init__(self, guard: BenchmarkIndex | None = None) -> None:
        self._guard = guard
        self._left_out: Counter[str] = Counter()
        self._found: dict[str, str] = {}

    @classmethod
    @contextmanager
    def opened(cls, path: str | Path | None) -> Iterator[Screening]:
        """One with the index that `--guard` names, or with none. Raises SettingsError."""
        with optional_guard(path) as guard:
            yield cls(guard)

    @property
    def guard(self) -> BenchmarkIndex | None:
        """The index, for who has other questions to it."""
        return self._guard

    def finds(
        self, where: str, texts: Sequence[str], images: Iterable[Picture] = (), ids: Sequence[str] = ()
    ) -> BenchmarkMatch | None:
        """What `where` (a row's place, a run's name) has in common with a benchmark; it is counted. None
        without a guard. Raises SettingsError for a damaged index."""
        if self._guard is None:
            return None
        return self.counted(where, finding_in(self._guard, texts, images, ids))

    def counted(self, where: str, finding: BenchmarkMatch | None) -> BenchmarkMatch | None:
        """What was found elsewhere by an index like this one, counted here as what `where` is."""
        if finding is not None:
            self._left_out[finding.benchmark] += 1
            if len(self._found) < MAX_LISTED:
                self._found[where] = str(finding)
        return finding

    def finds_trajectory(self, name: str, trajectory: Trajectory) -> BenchmarkMatch | None:
        """The same of all that a trajectory would teach."""
        return self.counted(name, finding_in_trajectory(self._guard, trajectory))

    def report(self) -> Screened | None:
        """What was found; None without a guard."""
        if self._guard is None:
            return None
        benchmarks: Counter[str] = Counter()
        for source in self._guard.sources:
            benchmarks[source.benchmark] += source.items
        return Screened(
            benchmarks=dict(sorted(benchmarks.items())),
            left_out=dict(sorted(self._left_out.items())),
            found=self._found,
        )


def finding_in(
    guard: BenchmarkIndex, texts: Sequence[str], images: Iterable[Picture] = (), ids: Sequence[str] = ()
) -> BenchmarkMatch | None:
    """What these texts, images and ids of one thing have in common with a benchmark: together, and, since
    whole prompts are compared, each text by itself. Raises SettingsError for a damaged index."""
    finding = guard.finding("\n".join(texts), images, ids)
    for text in texts if finding is None and len(texts) > 1 else ():
        finding = finding or guard.finding(text)
    return finding


def finding_in_trajectory(guard: BenchmarkIndex | None, trajectory: Trajectory) -> BenchmarkMatch | None:
    """What all that a trajectory would teach has in common with a benchmark; None without a guard. Raises
    SettingsError for a damaged index."""
    return finding_in(guard, texts_of(trajectory), _pictures_of(trajectory)) if guard else None


def texts_of(trajectory: Trajectory) -> list[str]:
    """All texts of a trajectory that rows are made of."""
    texts = [trajectory.request.text, trajectory.plan.reasoning]
    for step in trajectory.plan.steps:
        texts += [step.instruction or "", step.prompt or "", step.auxiliary_text or ""]
    for result in trajectory.results:
        for attempt in result.attempts:
            texts.append(attempt.prompt)
            if attempt.verdict is not None:
                texts += [attempt.verdict.reasoning, attempt.verdict.refined_prompt]
    return list(dict.fromkeys(filter(None, texts)))


def _pictures_of(trajectory: Trajectory) -> list[Picture]:
    pictures = {picture.digest: picture for picture in trajectory.request.images}
    for result in trajectory.results:
        for attempt in result.attempts:
            for picture in (attempt.source, attempt.image):
                if picture is not None:
                    pictures[picture.digest] = picture
    return list(pictures.values())

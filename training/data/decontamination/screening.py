"""Compares rows and trajectories with the guard during their conversion, and records what is left out.

The counts appear in the report of each stage and on the dataset's card. A trajectory is compared with
everything it would teach (request, plan, prompts, the critic's texts, every image), so that `data guard
check` finds nothing in the rows made from it.
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
    """Rows or runs that were left out because they are in a benchmark.

    Attributes:
        benchmarks: Number of indexed items by benchmark.
        left_out: Number of matches by benchmark.
        found: Match by place, at most MAX_LISTED.
    """

    model_config = ConfigDict(extra="ignore")

    benchmarks: dict[str, int] = {}
    left_out: dict[str, int] = {}
    found: dict[str, str] = {}

    def as_line(self) -> str:
        """Return the counts as text."""
        counts = ", ".join(f"{name} {count}" for name, count in self.left_out.items()) or "nothing"
        known = ", ".join(f"{name} ({items} items)" for name, items in self.benchmarks.items())
        return f"compared with {known or 'an empty index'}; left out: {counts}"


class Screening:
    """Asks a guard, if there is one, and counts the matches."""

    def __init__(self, guard: BenchmarkIndex | None = None) -> None:
        self._guard = guard
        self._left_out: Counter[str] = Counter()
        self._found: dict[str, str] = {}

    @classmethod
    @contextmanager
    def opened(cls, path: str | Path | None) -> Iterator[Screening]:
        """Yield a screening with the index of `--guard`, or without one.

        Raises:
            SettingsError: The index cannot be opened.
        """
        with optional_guard(path) as guard:
            yield cls(guard)

    @property
    def guard(self) -> BenchmarkIndex | None:
        """The index, for other queries."""
        return self._guard

    def finds(
        self, where: str, texts: Sequence[str], images: Iterable[Picture] = (), ids: Sequence[str] = ()
    ) -> BenchmarkMatch | None:
        """Return the match of `where` (a row's place or a run's name) with a benchmark, and count it.

        None without a guard.

        Raises:
            SettingsError: The index is damaged.
        """
        if self._guard is None:
            return None
        return self.counted(where, finding_in(self._guard, texts, images, ids))

    def counted(self, where: str, finding: BenchmarkMatch | None) -> BenchmarkMatch | None:
        """Count a match that was found elsewhere with the same index, and return it."""
        if finding is not None:
            self._left_out[finding.benchmark] += 1
            if len(self._found) < MAX_LISTED:
                self._found[where] = str(finding)
        return finding

    def finds_trajectory(self, name: str, trajectory: Trajectory) -> BenchmarkMatch | None:
        """Return and count the match of everything that a trajectory would teach."""
        return self.counted(name, finding_in_trajectory(self._guard, trajectory))

    def report(self) -> Screened | None:
        """Return the counts, or None without a guard."""
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
    """Return the match of texts, images and ids of one row with a benchmark.

    Texts are compared together and, since whole prompts are compared too, one by one.

    Raises:
        SettingsError: The index is damaged.
    """
    finding = guard.finding("\n".join(texts), images, ids)
    for text in texts if finding is None and len(texts) > 1 else ():
        finding = finding or guard.finding(text)
    return finding


def finding_in_trajectory(guard: BenchmarkIndex | None, trajectory: Trajectory) -> BenchmarkMatch | None:
    """Return the match of everything that a trajectory would teach with a benchmark; None without a guard.

    Raises:
        SettingsError: The index is damaged.
    """
    return finding_in(guard, texts_of(trajectory), _pictures_of(trajectory)) if guard else None


def texts_of(trajectory: Trajectory) -> list[str]:
    """Return all texts of a trajectory that rows are made from."""
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

"""Reads runs in parallel and independently: the workers' job, and the checks of a run.

Whether a run is left out is decided where it is read, including the guard, since reading its images is most
of the work. The caller counts the reasons in the order of the runs' names, so that the report does not depend
on which worker finished first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from weakref import finalize

from ....backend.errors import JournalError, PictureError
from ....backend.loop.replay import load_trajectory
from ....backend.types import Trajectory
from ..decontamination.index import BenchmarkIndex
from ..decontamination.items import BenchmarkMatch
from ..decontamination.screening import finding_in_trajectory
from ..trajectories.outcomes import read_sample
from .filter import TRAIN
from .run_folders import find_runs

UNREADABLE = "its folder cannot be read"


class RunPlace(NamedTuple):
    """Absolute folder of a run, and its name in reports."""

    folder: Path
    name: str


class ReadRun(NamedTuple):
    """A run that was read.

    Attributes:
        trajectory: Its trajectory, or None if it is left out.
        reason: Why it is left out.
        finding: Match with a benchmark.
        id: Id of its prompt.
        held_out: Whether this prompt is held out.
    """

    trajectory: Trajectory | None
    reason: str = ""
    finding: BenchmarkMatch | None = None
    id: str = ""
    held_out: bool = False


def places_of(runs: Sequence[Path]) -> list[RunPlace]:
    """Return the runs in these folders, sorted by name.

    Raises:
        SettingsError: As `find_runs`.
        JournalError: As `find_runs`.
    """
    found = find_runs(runs) if runs else []
    return sorted((RunPlace(folder.absolute(), name) for folder, name in found), key=lambda one: one.name)


class RunReading:
    """Reads single runs in any thread; leaves out those that are `unfit` or in the index `guard`.

    Raises:
        SettingsError: The index is damaged.
    """

    def __init__(self, unfit: Callable[[Trajectory], str], guard: Path | None) -> None:
        self._unfit = unfit
        self._guard = BenchmarkIndex.open(guard) if guard else None
        if self._guard:
            finalize(self, self._guard.close)

    def __call__(self, place: RunPlace) -> ReadRun:
        """Return the run, or why it is left out."""
        try:
            trajectory, sample = load_trajectory(place.folder), read_sample(place.folder)
            reason = self._unfit(trajectory)
            finding = None if reason else finding_in_trajectory(self._guard, trajectory)
        except (JournalError, PictureError):
            return ReadRun(None, UNREADABLE)
        if finding is not None:
            reason = f"in a benchmark: {finding.benchmark}"
        if reason:
            return ReadRun(None, reason, finding)
        held_out = sample is not None and sample.split not in ("", TRAIN)
        return ReadRun(trajectory, id=sample.id if sample else place.name, held_out=held_out)

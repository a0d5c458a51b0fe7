"""One prompt carried out: the loop over a journal in the prompt's own folder, its cost noted, its record
written.

Decisions. Everything that the loop and the journal know of going on after a kill is used as it is; this file
adds the end. Whatever goes wrong with one prompt is a value. A folder that is still locked belongs to a
worker that is dying (its machine was lost, its parent killed), so its lock is waited for.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from collections.abc import Generator as EventStream
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ....backend.agents.constrained_planner import ConstrainedPlanner
from ....backend.agents.critic import Critic
from ....backend.agents.plan_constraints import PlanConstraints
from ....backend.agents.planner import Planner
from ....backend.errors import AnswerError, ChatError, InterleaveError, JournalError, PictureError
from ....backend.exporters.record import FILE_NAME, write_record
from ....backend.files.lock import SystemLock
from ....backend.generators.protocol import FollowsAnchor, Generator
from ....backend.journal.files import PICTURES
from ....backend.journal.journal import RUN
from ....backend.journal.lock import NAME as LOCK
from ....backend.loop.events import Event, Finished, PlanReady
from ....backend.loop.loop import run
from ....backend.loop.policy import hashed_seed
from ....backend.pictures import Picture
from ....backend.types import Request, RunSettings, Trajectory
from ..executors import CancelToken
from .outcomes import PromptOutcome, noted, outcome_of, read_sample, write_sample
from .prompt_rows import Prompt
from .usage import MeteredJournal, Prices, RunLedger, metered

DYING = 60.0
"""Seconds for which a folder's lock is waited for."""
ELSEWHERE = "elsewhere"
"""Where a prompt is that another process is carrying out."""
PLANNED = "planned"
"""Where a prompt is whose plan was all that was wanted."""


@dataclass(frozen=True)
class Teachers:
    """The models, open: who plans, who judges (None: nobody), who draws; each with the name that it was
    opened by, which ledger and price list know it by."""

    planner: tuple[str, Planner]
    critic: tuple[str, Critic] | None
    generators: tuple[tuple[str, Generator], ...]
    constraints: PlanConstraints = field(default_factory=PlanConstraints)


OpenTeachers = Callable[[], Teachers]
"""Opens the models where they are to work; can be pickled. Raises InterleaveError."""


DISK = "disk"
"""Place of an outcome that a full disk has stopped."""
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


@dataclass(frozen=True)
class TrajectoryJob:
    """What workers are given: where trajectories go, who makes them, and how. `shared`: other processes may
    be at the same prompts, and what one of them is at is left to it. `plans_only`: runs are left once they
    are planned, and go on from there with the next job."""

    out: Path
    teachers: OpenTeachers
    settings: RunSettings
    prices: Prices = field(default_factory=dict)
    shared: bool = False
    plans_only: bool = False

    def open(self, stop: CancelToken) -> Callable[[Prompt], PromptOutcome]:
        """Open the models; raises InterleaveError."""
        return _Unit(self, self.teachers(), stop).carry_out


class _Unit:
    def __init__(self, job: TrajectoryJob, teachers: Teachers, stop: CancelToken) -> None:
        self._job, self._teachers, self._stop = job, teachers, stop
        # Such a generator draws one story at a time.
        self._alone = {
            name: threading.Lock() if isinstance(drawer, FollowsAnchor) else nullcontext()
            for name, drawer in teachers.generators
        }

    def carry_out(self, prompt: Prompt) -> PromptOutcome:
        """Carry out one prompt, from where its folder ends."""
        if self._stop.reason():
            return noted(prompt.row, "stopped")
        if self._job.shared:
            folder = self._job.out / prompt.row.folder
            if is_done(folder) and (found := read_sample(folder)):
                return found
            if _in_use(folder):
                return noted(prompt.row, "stopped", where=ELSEWHERE)
        generators = self._teachers.generators
        name, _ = generators[prompt.row.digest // 2**32 % len(generators)]
        with self._alone[name]:
            return self._carried_out(prompt, name)

    def _carried_out(self, prompt: Prompt, name: str) -> PromptOutcome:
        folder, where = self._job.out / prompt.row.folder, "prompt"
        trajectory: Trajectory | None = None
        try:
            with _left_by_others(folder):
                pass
            with closing(self._events(prompt, folder, name)) as events:
                where = "planner"
                for event in events:
                    if isinstance(event, PlanReady):
                        where = "critic"
                        if self._job.plans_only:
                            return noted(prompt.row, "stopped", where=PLANNED, generator=name)
                    if isinstance(event, Finished):
                        trajectory = event.trajectory
                    elif self._stop.reason():
                        return noted(prompt.row, "stopped", generator=name)
            assert trajectory is not None, "a run ends with Finished"
            outcome = outcome_of(prompt.row, name, trajectory)
            if outcome.is_done:
                write_sample(folder, outcome)
                write_record(trajectory, folder, lambda picture, stem: f"{PICTURES}/{picture.digest}.png")
            return outcome
        except JournalError as error:
            if self._job.shared and _in_use(folder):
                return noted(prompt.row, "stopped", where=ELSEWHERE)
            if _is_full(error):
                # No fault of the prompt: with room again it goes on like any other.
                return noted(prompt.row, "stopped", error.message, where=DISK, generator=name)
            return noted(prompt.row, "failed", str(error), where="folder", generator=name)
        except InterleaveError as error:
            at = where if isinstance(error, AnswerError | ChatError) else "prompt"
            return noted(prompt.row, "failed", str(error), where=at, generator=name)

    def _events(self, prompt: Prompt, folder: Path, name: str) -> EventStream[Event, None, None]:
        images = tuple(_image(path) for path in prompt.images)
        request = Request(text=prompt.row.user_input, images=images)
        ledger = RunLedger(folder, self._job.prices, self._stop.add)
        teachers = self._teachers
        planner = metered(teachers.planner[1], "planner", teachers.planner[0], ledger)
        critic = teachers.critic and metered(teachers.critic[1], "critic", teachers.critic[0], ledger)
        settings = self._job.settings
        events = run(
            request,
            ConstrainedPlanner(planner, _constraints(teachers, prompt)),
            dict(teachers.generators)[name],
            critic,
            settings.model_copy(update={"seed": prompt_seed(settings.seed, prompt.row.id)}),
            MeteredJournal(folder, name, ledger),
        )
        # A run is a generator, so that whoever consumes it can stop it.
        return cast("EventStream[Event, None, None]", events)


def _constraints(teachers: Teachers, prompt: Prompt) -> PlanConstraints:
    """What the plan of a prompt is to be like: a count of its own before that of all."""
    own = {"step_count": prompt.steps} if prompt.steps else {}
    return teachers.constraints.model_copy(update=own)


def prompt_seed(base: int, name: str) -> int:
    """The seed of one prompt's run: by its id, so that it is the same in any company."""
    return hashed_seed(f"{base}/{name}")


def _is_full(error: BaseException | None) -> bool:
    """Whether a full disk, or a used-up share of one, is behind an error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__
    return False


def _image(path: Path) -> Picture:
    if not path.is_file():
        raise PictureError(f"There is no image {str(path)!r} any more.")
    return Picture.open(path)


@contextmanager
def _left_by_others(folder: Path) -> Iterator[None]:
    """Once nobody else is writing into the folder; raises JournalError if somebody is for too long."""
    if not (folder / RUN).exists():
        yield
        return
    busy = JournalError(f"Another run has been using {str(folder)!r} for {DYING:g} s.", "End it.")
    with SystemLock(folder / LOCK).held(busy, DYING):
        yield


def _in_use(folder: Path) -> bool:
    """Whether somebody is writing into the folder right now."""
    lock = SystemLock(folder / LOCK)
    if not (folder / RUN).exists():
        return False
    if not lock.take():
        return True
    lock.release()
    return False


def is_done(folder: Path) -> bool:
    """Whether a prompt's folder holds a record, ours or the published side's."""
    return (folder / FILE_NAME).exists()


__all__ = ["DISK", "ELSEWHERE", "PLANNED", "OpenTeachers", "Teachers", "TrajectoryJob", "is_done"]

"""Runs one prompt: the loop with a journal in the prompt's own folder, its ledger and its record.

Resuming after an interruption is done by the loop and the journal. Any error of a prompt is returned as a
value. A folder that is still locked belongs to a dying worker (its machine was lost, its parent killed), so
its lock is waited for.
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

from ....backend.agents.critic import Critic
from ....backend.agents.plan_constraints import ConstrainedPlanner, PlanConstraints
from ....backend.agents.planner import Planner
from ....backend.errors import AnswerError, ChatError, InterleaveError, JournalError, PictureError
from ....backend.exporters.record import FILE_NAME, write_record
from ....backend.files.lock import SystemLock
from ....backend.generators.protocol import FollowsAnchor, Generator
from ....backend.journal.lock import NAME as LOCK
from ....backend.journal.records.run_files import PICTURES, RUN
from ....backend.loop.collaborators import Collaborators
from ....backend.loop.events import Event, Finished, PlanReady
from ....backend.loop.loop import run
from ....backend.loop.policy import hashed_seed
from ....backend.pictures import Picture
from ....backend.types import Request, RunSettings, Trajectory
from ..executors import CancelToken
from .outcomes import PromptOutcome, noted, outcome_of, read_sample, write_sample
from .prompt_rows import Prompt
from .usage import MeteredJournal, Prices, RunLedger, metered

DYING = 150.0
"""Seconds to wait for a folder's lock.

NFS 4 releases the locks of a lost machine after its lease, 90 s by default. The workers of a machine that
lost its network end after 60 s (Ray's `gcs_rpc_server_reconnect_timeout_s`).
"""
ELSEWHERE = "elsewhere"
"""Place of a prompt that another process is working on."""
PLANNED = "planned"
"""Place of a prompt of which only the plan was requested."""


@dataclass(frozen=True)
class Teachers:
    """The opened models: planner, critic (or None) and generators.

    Each has the name by which it was opened, as in ledger and price list.
    """

    planner: tuple[str, Planner]
    critic: tuple[str, Critic] | None
    generators: tuple[tuple[str, Generator], ...]
    constraints: PlanConstraints = field(default_factory=PlanConstraints)


OpenTeachers = Callable[[], Teachers]
"""Opens the models in a worker; can be pickled. Raises InterleaveError."""


DISK = "disk"
"""Place of an outcome that was stopped by a full disk."""
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


@dataclass(frozen=True)
class TrajectoryJob:
    """Job of a worker: the output folder, the models and the settings.

    With `shared`, other processes may work on the same prompts, and a prompt that one of them works on is
    skipped. With `plans_only`, runs stop after the plan, and are resumed by the next job.
    """

    out: Path
    teachers: OpenTeachers
    settings: RunSettings
    prices: Prices = field(default_factory=dict)
    shared: bool = False
    plans_only: bool = False

    def open(self, stop: CancelToken) -> Callable[[Prompt], PromptOutcome]:
        """Open the models, and return the function for a prompt.

        Raises:
            InterleaveError: A model cannot be opened.
        """
        return _Unit(self, self.teachers(), stop).carry_out


class _Unit:
    def __init__(self, job: TrajectoryJob, teachers: Teachers, stop: CancelToken) -> None:
        self._job, self._teachers, self._stop = job, teachers, stop
        # Such a generator can work on only one story at a time.
        self._alone = {
            name: threading.Lock() if isinstance(drawer, FollowsAnchor) else nullcontext()
            for name, drawer in teachers.generators
        }

    def carry_out(self, prompt: Prompt) -> PromptOutcome:
        """Run one prompt, from where its folder ends."""
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
                # Not an error of the prompt: it is resumed once there is room again.
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
            Collaborators(
                ConstrainedPlanner(planner, _constraints(teachers, prompt)),
                dict(teachers.generators)[name],
                critic,
                cast=prompt.cast,
            ),
            settings.model_copy(update={"seed": prompt_seed(settings.seed, prompt.row.id)}),
            MeteredJournal(folder, name, ledger),
        )
        # A run is a generator, so that its consumer can stop it.
        return cast("EventStream[Event, None, None]", events)


def _constraints(teachers: Teachers, prompt: Prompt) -> PlanConstraints:
    """Return the constraints of a prompt's plan; its own number of steps takes precedence."""
    own = {"step_count": prompt.steps} if prompt.steps else {}
    return teachers.constraints.model_copy(update=own)


def prompt_seed(base: int, name: str) -> int:
    """Return the seed of one prompt's run, which depends only on its id."""
    return hashed_seed(f"{base}/{name}")


def _is_full(error: BaseException | None) -> bool:
    """Return whether the cause of an error is a full disk or an exceeded quota."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__
    return False


def _image(path: Path) -> Picture:
    if not path.is_file():
        raise PictureError(f"The image {str(path)!r} no longer exists.")
    return Picture.open(path)


@contextmanager
def _left_by_others(folder: Path) -> Iterator[None]:
    """Wait until no other process writes to the folder; raises JournalError if that takes too long."""
    if not (folder / RUN).exists():
        yield
        return
    busy = JournalError(
        f"Another run has been using {str(folder)!r} for {DYING:g} s.",
        "End that run, then try again.",
    )
    with SystemLock(folder / LOCK).held(busy, DYING):
        yield


def _in_use(folder: Path) -> bool:
    """Return whether another process is writing to the folder."""
    lock = SystemLock(folder / LOCK)
    if not (folder / RUN).exists():
        return False
    if not lock.take():
        return True
    lock.release()
    return False


def is_done(folder: Path) -> bool:
    """Return whether a prompt's folder contains a record, ours or that of the published scripts."""
    return (folder / FILE_NAME).exists()


__all__ = ["DISK", "ELSEWHERE", "PLANNED", "OpenTeachers", "Teachers", "TrajectoryJob", "is_done"]

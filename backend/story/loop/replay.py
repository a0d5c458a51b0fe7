"""Loads an unfinished run by running the loop over its records.

Only the loop knows how records follow one another, so the loop itself reads them. Placeholders for planner,
generator and critic cancel the run at the first missing record.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from os.path import isfile
from pathlib import Path

from ...core.errors import Cancelled, JournalError
from ...core.pictures import Picture
from ...core.seams.generator import Generator
from ...core.seams.scorer import Scorer
from ...core.types import (
    MAX_STEP_IMAGES,
    CheckedItem,
    ChecklistItem,
    Plan,
    Request,
    Score,
    StepSettings,
    Trajectory,
    Verdict,
)
from ...core.types.roles import CriticLike, PlannerLike
from ..execution_record.reader import FILE_NAME as RECORD
from ..execution_record.reader import read_record, text_in
from ..execution_record.trajectory import record_trajectory
from ..journal.journal import Journal
from ..journal.run_files import RUN
from ..journal.store import RunStore
from .collaborators import Collaborators
from .events import Finished
from .loop import run


def replay(journal: Journal) -> Trajectory | None:
    """Return the trajectory of a run's records; the step where they end is cancelled.

    `None` without a plan.

    Raises:
        JournalError: A record is damaged.
    """
    record = journal.record()
    events = run(
        journal.request(),
        Collaborators(
            _AbsentAgent(record.identities.planner),
            _AbsentGenerator(record.identities.generator),
            _AbsentAgent(record.identities.critic) if record.identities.critic else None,
            scorer=_AbsentScorer(scorer) if (scorer := record.identities.scorer) else None,
        ),
        record.settings.model_copy(update={"time_budget": None}),
        _Past(journal),
    )
    with suppress(Cancelled):
        for event in events:
            if isinstance(event, Finished):
                identities = event.trajectory.identities
                kept = identities.model_copy(update={"prompt_set": record.identities.prompt_set})
                if record.planned is None and record.identities.planner:
                    # The plan was passed in by a program that had it from this planner.
                    kept = kept.model_copy(update={"planner": record.identities.planner})
                return event.trajectory.model_copy(update={"settings": record.settings, "identities": kept})
    return None


class _Past(RunStore):
    """The records of a journal, also of recorded failures; what is stored in it is dropped."""

    def __init__(self, journal: Journal) -> None:
        self.written_plan, self.plan, self.planning = journal.written_plan, journal.plan, journal.planning
        self.drawn, self.judged = journal.draw_record, journal.judge_record
        self.choices, self.story_checks = journal.choices, journal.story_checks
        self.with_clips = journal.with_clips


class _AbsentGenerator(Generator):
    """A placeholder that can do everything: cancels the run if an image is not recorded."""

    def __init__(self, identity: str) -> None:
        self._identity = identity

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def draws_several(self) -> bool:
        return True

    @property
    def step_settings(self) -> frozenset[str]:
        return frozenset(StepSettings.model_fields)

    @property
    def max_reference_images(self) -> int:
        return MAX_STEP_IMAGES - 1

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        raise Cancelled("The image is not generated yet.")


class _AbsentAgent(PlannerLike, CriticLike):
    """A placeholder for planner or critic: cancels the run if a plan or verdict is not recorded."""

    checks_items = True

    def __init__(self, identity: str) -> None:
        self._identity = identity

    @property
    def identity(self) -> str:
        return self._identity

    def plan(self, request: Request) -> Plan:
        raise Cancelled("The plan is not written yet.")

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        raise Cancelled("The image is not judged yet.")

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        raise Cancelled("The checklist is not answered yet.")


class _AbsentScorer(Scorer):
    """A placeholder for a scorer: cancels the run if a score is not recorded."""

    def __init__(self, identity: str) -> None:
        self._identity = identity

    @property
    def identity(self) -> str:
        return self._identity

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        raise Cancelled("The image is not scored yet.")


def is_record(path: str | Path) -> bool:
    """Return whether a path is an execution record: a JSON file, or a folder with one but without a run.

    A folder with a text and images counts as one (execution_record/reader.py).
    """
    path = Path(path)
    # Unlike Path.is_file, os.path.isfile does not raise an error for an invalid file name.
    if isfile(path):
        return path.suffix.lower() == ".json"
    return not isfile(path / RUN) and (isfile(path / RECORD) or text_in(path) is not None)


def load_trajectory(folder: str | Path) -> Trajectory:
    """Load a run or an execution record.

    Args:
        folder: A run folder, a run's .zip file, an execution record, or the folder that contains one. The
            last step of an unfinished run is cancelled.

    Raises:
        JournalError: The folder does not contain a run or record, the run has no plan yet, or a file is
            damaged or from a newer version.
    """
    if is_record(folder):
        return record_trajectory(read_record(folder))
    journal = Journal(folder)
    journal.record()
    trajectory = journal.trajectory() or replay(journal)
    if trajectory is None:
        raise JournalError(
            f"The run in {str(folder)!r} does not have a plan yet.", "Run the same command again to plan."
        )
    return trajectory

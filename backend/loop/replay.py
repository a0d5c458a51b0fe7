"""A run as far as it came, read from its records by running the loop over them with nobody there to make
more.

Decision: the loop is the only one that knows how records follow one another, so an unfinished run is read by
the loop itself. Whoever stands in for planner, generator and critic cancels the run at the first gap.
"""

from __future__ import annotations

from contextlib import suppress
from os.path import isfile
from pathlib import Path

from ..errors import Cancelled, JournalError
from ..execution_record.reader import FILE_NAME as RECORD
from ..execution_record.reader import read_record
from ..execution_record.trajectory import record_trajectory
from ..journal.journal import RUN, Journal
from ..journal.store import DrawRecord, JudgementRecord, PlanKey
from ..pictures import Picture
from ..types import (
    MAX_STEP_IMAGES,
    Identities,
    Plan,
    Request,
    RunSettings,
    StepSettings,
    Trajectory,
    Verdict,
)
from .events import Finished
from .loop import run


def replay(journal: Journal) -> Trajectory | None:
    """The trajectory that the records give, its last step cancelled where they end; None if there is no plan.

    Raises JournalError if a record is damaged.
    """
    record = journal.record()
    events = run(
        journal.request(),
        _AbsentAgent(record.identities.planner),
        _AbsentGenerator(record.identities.generator),
        _AbsentAgent(record.identities.critic) if record.identities.critic else None,
        record.settings.model_copy(update={"time_budget": None}),
        _Past(journal),
    )
    with suppress(Cancelled):
        for event in events:
            if isinstance(event, Finished):
                identities = event.trajectory.identities
                kept = identities.model_copy(update={"prompt_set": record.identities.prompt_set})
                if record.planned is None and record.identities.planner:
                    # The plan was handed over by whoever had it from this planner.
                    kept = kept.model_copy(update={"planner": record.identities.planner})
                return event.trajectory.model_copy(update={"settings": record.settings, "identities": kept})
    return None


class _Past:
    """A journal that is only read: nothing taken, nothing written, and recorded failures are found too."""

    def __init__(self, journal: Journal) -> None:
        self.written_plan, self.plan = journal.written_plan, journal.plan
        self.prompt_sets = journal.prompt_sets
        self.drawn, self.judged = journal.draw_record, journal.judge_record
        self.user_selected, self.redraws = journal.user_selected, journal.redraws

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        pass

    def end(self) -> None:
        pass

    def keep_plan(self, plan: Plan, key: PlanKey | None) -> None:
        pass

    def keep_drawn(self, drawn: DrawRecord) -> None:
        pass

    def keep_judged(self, judged: JudgementRecord) -> None:
        pass

    def finish(self, trajectory: Trajectory) -> None:
        pass


class _AbsentGenerator:
    """Stands where the generator stood; asked for what is not recorded, it ends the run."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.draws_several = True
        self.step_settings = frozenset(StepSettings.model_fields)
        self.max_reference_images = MAX_STEP_IMAGES - 1

    def with_step_settings(self, settings: StepSettings) -> _AbsentGenerator:
        return self

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        return (self.draw(prompt, source, seed),)

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        raise Cancelled("Not drawn yet.")


class _AbsentAgent:
    """Stands where planner or critic stood, likewise."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.prompt_set_digest = ""

    def plan(self, request: Request) -> Plan:
        raise Cancelled("Not planned yet.")

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        raise Cancelled("Not judged yet.")


def is_record(path: str | Path) -> bool:
    """Return whether a path is an execution record: a JSON file, or a folder with one but without a run."""
    path = Path(path)
    # Unlike Path.is_file, os.path.isfile does not raise for a name that no file can have.
    if isfile(path):
        return path.suffix.lower() == ".json"
    return isfile(path / RECORD) and not isfile(path / RUN)


def load_trajectory(folder: str | Path) -> Trajectory:
    """Load a run or an execution record.

    Args:
        folder: A run's folder or .zip file, an execution record, or the folder that contains one. An
            unfinished run ends with a step that was cancelled.

    Raises:
        JournalError: There is no run or record, the run has no plan yet, or a file is damaged or too new.
    """
    if is_record(folder):
        return record_trajectory(read_record(folder))
    journal = Journal(folder)
    journal.record()
    trajectory = journal.trajectory() or replay(journal)
    if trajectory is None:
        raise JournalError(f"The run in {str(folder)!r} has no plan yet.", "Run the same command again.")
    return trajectory

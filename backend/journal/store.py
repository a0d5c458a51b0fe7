"""The store of a run: plans, images and verdicts, each under a key of everything that made it.

`InMemoryStore` keeps the records (records/calls.py) in this process, for a run without a folder;
`journal.Journal` keeps them on disk. Failures are recorded for the reader but never returned from the cache,
so running again repeats them.
"""

from __future__ import annotations

from ..types import MAX_CHECKS, Identities, Plan, Request, RunSettings, Step, StoryCheck, Trajectory
from .picks import Choices, RedrawRequest, fitting, with_request
from .records.calls import (
    DrawKey,
    DrawRecord,
    JudgeKey,
    JudgementRecord,
    PlanKey,
    StoryKey,
    checked_key,
)
from .waiting import Waiting

__all__ = [
    "DrawKey",
    "DrawRecord",
    "InMemoryStore",
    "JudgeKey",
    "JudgementRecord",
    "PlanKey",
    "RunStore",
    "StoryKey",
    "checked_key",
    "with_check",
]


def with_check(checks: tuple[StoryCheck, ...], check: StoryCheck) -> tuple[StoryCheck, ...]:
    """Return the story checks with one more, which replaces one with the same key. The oldest are dropped."""
    return (*(one for one in checks if one.key != check.key), check)[-MAX_CHECKS:]


class RunStore:
    """The store of the loop. Between `begin` and `end` a store belongs to one run.

    This base class remembers nothing.
    """

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        """Start or resume a run.

        Raises:
            JournalError: The store cannot be used for this run.
        """

    def end(self) -> None:
        """End the run, for any reason. It must be safe to call this twice."""

    def keep_settings(self, settings: RunSettings) -> None:
        """Store the settings of the run after its plan has completed them."""

    def written_plan(self) -> Plan | None:
        """Return the plan that the user wrote, which a planner may not replace."""
        return None

    def plan(self, key: PlanKey) -> Plan | None:
        """Return the plan that this planner wrote for this request, if there is one."""
        return None

    def keep_plan(self, plan: Plan, key: PlanKey | None) -> None:
        """Store the plan. Without `key` it is the user's plan."""

    def drawn(self, key: DrawKey) -> DrawRecord | None:
        """Return the cached images of a generator call."""
        return None

    def keep_drawn(self, drawn: DrawRecord) -> None:
        """Store the record of a generator call."""

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        """Return the cached verdict or score."""
        return None

    def keep_judged(self, judged: JudgementRecord) -> None:
        """Store the record of a judgement."""

    def user_selected(self, step: int) -> str | None:
        """Return the digest of the image that the user picked as the result of this step, if there is one."""
        return None

    def redraws(self, step: Step) -> dict[int, RedrawRequest]:
        """Return the further attempts that were requested at this step, by ascending numbers.

        Read before every generator call, since requests may arrive at any time.
        """
        return {}

    def request_redraw(self, step: int, request: RedrawRequest) -> None:
        """Request one more attempt at a step."""

    def story_checks(self) -> tuple[StoryCheck, ...]:
        """Return the story checks of this run, oldest first."""
        return ()

    def keep_story_check(self, check: StoryCheck) -> None:
        """Store a story check. It replaces one with the same key."""

    def skipped(self, step: Step) -> bool:
        """Return whether the user skipped this step."""
        return False

    def approved_plan(self) -> str | None:
        """Return the digest of the plan that the user approved or a time-out let pass, if there is one."""
        return None

    def timed(self, step: int) -> str | None:
        """Return the digest of the image of this step that a time-out let pass, if there is one."""
        return None

    def keep_waiting(self, waiting: Waiting | None) -> Waiting | None:
        """Store what the run waits for, if it waits. Return it with the time at which the wait began."""
        return waiting

    def with_clips(self, trajectory: Trajectory) -> Trajectory:
        """Return a trajectory with the stored clips that belong to it."""
        return trajectory

    def finish(self, trajectory: Trajectory) -> None:
        """Store the trajectory of a run that has ended or was cancelled."""


class InMemoryStore(RunStore):
    """A store in the RAM of this process; the reference for what a journal does on disk.

    The user cannot decide anything in it.
    """

    def __init__(self) -> None:
        self._plans: dict[PlanKey | None, Plan] = {}
        self._draws: dict[DrawKey, DrawRecord] = {}
        self._judgements: dict[JudgeKey, JudgementRecord] = {}
        self._choices, self._style = Choices(), ""
        self._checks: tuple[StoryCheck, ...] = ()
        self.trajectory: Trajectory | None = None

    def written_plan(self) -> Plan | None:
        """Return the user's plan, if there is one."""
        return self._plans.get(None)

    def plan(self, key: PlanKey) -> Plan | None:
        """Return the cached plan of this planner and request."""
        return self._plans.get(key)

    def keep_plan(self, plan: Plan, key: PlanKey | None) -> None:
        """Store the plan."""
        self._plans[key], self._style = plan, plan.style

    def drawn(self, key: DrawKey) -> DrawRecord | None:
        """Return the cached images of a generator call."""
        return self._draws.get(key)

    def keep_drawn(self, drawn: DrawRecord) -> None:
        """Store the record of a generator call, unless it failed."""
        if drawn.image is not None:
            self._draws[drawn.key] = drawn

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        """Return the cached verdict."""
        return self._judgements.get(key)

    def keep_judged(self, judged: JudgementRecord) -> None:
        """Store the record of a judgement, unless it failed."""
        if judged.succeeded:
            self._judgements[judged.key] = judged

    def redraws(self, step: Step) -> dict[int, RedrawRequest]:
        """Return the attempts that the story check requested."""
        return fitting(self._choices, step, self._style)

    def request_redraw(self, step: int, request: RedrawRequest) -> None:
        """Request one more attempt at a step."""
        self._choices = with_request(self._choices, step, request)

    def story_checks(self) -> tuple[StoryCheck, ...]:
        """Return the story checks of this run, oldest first."""
        return self._checks

    def keep_story_check(self, check: StoryCheck) -> None:
        """Store a story check. It replaces one with the same key."""
        self._checks = with_check(self._checks, check)

    def finish(self, trajectory: Trajectory) -> None:
        """Store the trajectory."""
        self.trajectory = trajectory

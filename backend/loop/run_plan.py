"""The plan of a run: given by the caller, written by the user, cached, or new from the planner."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import SettingsError
from ..journal.store import PlanKey, RunStore
from ..types import Plan, Request
from .protocols import CastOfPlan, CriticLike, Offloadable, PlannerLike


class RunPlan(NamedTuple):
    """The plan of a run.

    Attributes:
        plan: The plan, with its cast.
        key: Its key in the store. `None`: it is the user's plan.
        planned: Whether it is recorded as the planner's plan.
        reused: Whether it came from the store.
    """

    plan: Plan
    key: PlanKey | None
    planned: bool
    reused: bool


class PlanFinder:
    """Finds the plan of a request, and stores it with its cast."""

    def __init__(self, request: Request, store: RunStore, cast: CastOfPlan | None) -> None:
        self._request, self._store, self._cast = request, store, cast

    def find(self, given: Plan | None, planner: PlannerLike | None, critic: CriticLike | None) -> RunPlan:
        """Return the plan of the run.

        Args:
            given: Plan of the caller.
            planner: The planner. It is called only if there is no plan.
            critic: The critic. If it has the planner's weights, they stay in VRAM.

        Raises:
            AnswerError: The planner's reply could not be parsed.
            ChatError: The planner failed.
            JournalError: The plan in the store is damaged.
            SettingsError: Planner and plan are both missing.
            Cancelled: The run was cancelled.
        """
        if given is not None:
            given = self._with_cast(given)
            self._store.keep_plan(given, None)
            return RunPlan(given, None, planner is not None, False)
        written = self._store.written_plan()
        if written is not None:
            return RunPlan(self._stored_with_cast(written, None), None, False, True)
        if planner is None:
            raise SettingsError(
                "The run has neither a planner nor a plan.", "Choose a planner, or give a plan."
            )
        key = PlanKey(
            planner=planner.identity,
            text=self._request.text,
            images=tuple(image.digest for image in self._request.images),
        )
        remembered = self._store.plan(key)
        if remembered is not None:
            return RunPlan(self._stored_with_cast(remembered, key), key, True, True)
        plan = self._with_cast(planner.plan(self._request))
        if isinstance(planner, Offloadable):
            planner.offload(critic)
        self._store.keep_plan(plan, key)
        return RunPlan(plan, key, True, False)

    def _with_cast(self, plan: Plan) -> Plan:
        return plan if self._cast is None else self._cast(self._request, plan)

    def _stored_with_cast(self, stored: Plan, key: PlanKey | None) -> Plan:
        plan = self._with_cast(stored)
        if plan != stored:
            self._store.keep_plan(plan, key)
        return plan

"""A planner that keeps to constraints, for a loop that plans by itself (the command line's).

Decision: the constraints are part of its identity, since another style or count is another plan; without any
it is the planner that it wraps, and runs from before go on.
"""

from __future__ import annotations

from ..types import Plan, Request
from .plan_constraints import PlanConstraints, constrained_plan
from .planner import Planner


class ConstrainedPlanner:
    """Implements loop.PlannerLike around a Planner."""

    def __init__(self, planner: Planner, constraints: PlanConstraints) -> None:
        self._planner, self._constraints = planner, constraints

    @property
    def identity(self) -> str:
        given = self._constraints.model_dump_json(exclude_defaults=True)
        return self._planner.identity + (f"|{given}" if given != "{}" else "")

    @property
    def prompt_set_digest(self) -> str:
        return self._planner.prompt_set_digest

    def continuing(self, prompt_sets: frozenset[str]) -> ConstrainedPlanner:
        """As Planner.continuing."""
        return ConstrainedPlanner(self._planner.continuing(prompt_sets), self._constraints)

    def plan(self, request: Request) -> Plan:
        """The plan with the constraints; raises as `constrained_plan` does."""
        return constrained_plan(self._planner, request, self._constraints)

    def offload(self, staying: object) -> None:
        """As Planner.offload."""
        self._planner.offload(staying)

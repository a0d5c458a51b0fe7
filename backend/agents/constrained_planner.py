"""A planner with constraints, for a loop that calls the planner itself (as the command line does).

The constraints are part of the identity, since another style or count gives another plan. Without constraints
the identity is that of the wrapped planner, so old runs can be resumed.
"""

from __future__ import annotations

from pydantic import ValidationError

from ..types import Plan, Request
from .plan_constraints import PlanConstraints, constrained_plan
from .planner import Planner


class ConstrainedPlanner:
    """Wraps a Planner and implements `loop.PlannerLike`."""

    def __init__(self, planner: Planner, constraints: PlanConstraints) -> None:
        self._planner, self._constraints = planner, constraints

    @property
    def identity(self) -> str:
        """Identity of the wrapped planner, with the constraints."""
        given = self._constraints.model_dump_json(exclude_defaults=True)
        return self._planner.identity + (f"|{given}" if given != "{}" else "")

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the prompt set."""
        return self._planner.prompt_set_digest

    def plan(self, request: Request) -> Plan:
        """Return a plan that meets the constraints.

        Raises:
            AnswerError: No plan has the exact number of steps, or two replies could not be parsed.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        return constrained_plan(self._planner, request, self._constraints)

    def offload(self, staying: object) -> None:
        """Free VRAM, as `Planner.offload` does."""
        self._planner.offload(staying)


def constraints_in(identity: str) -> PlanConstraints:
    """Return the constraints that are part of a planner's identity; the defaults if there are none."""
    at = identity.find("|{")
    while at >= 0:
        try:
            return PlanConstraints.model_validate_json(identity[at + 1 :])
        except ValidationError:
            at = identity.find("|{", at + 1)
    return PlanConstraints()

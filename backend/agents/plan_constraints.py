"""What a person wants of a plan besides the request: how many steps, and which captions.

Decision: agents are given them in words, as part of the request, since that is all that every checkpoint's
prompt set can take. What can be counted is then checked: a plan of another length is asked for once more and
refused after that, never cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from pydantic import Field

from ..errors import AnswerError
from ..types import MAX_STEPS, Plan, Request, Value

CaptionStyle = Literal["as asked", "none", "short", "paragraph"]
# Simple words that small planners know too.
CAPTION_WORDS: dict[CaptionStyle, str] = {
    "as asked": "",
    "none": " No captions.",
    "short": " Write a short caption for every picture.",
    "paragraph": " Write a paragraph for every picture.",
}


class PlanConstraints(Value):
    """Wishes beside the request; field descriptions are the node's tooltips."""

    step_count: int = Field(
        default=0,
        ge=0,
        le=MAX_STEPS,
        description="How many steps the plan is to have; 0 leaves it to the agent.",
    )
    captions: CaptionStyle = Field(
        default="as asked",
        description=(
            "Words beside the pictures: as the request asks, none, a short caption or a paragraph a step."
        ),
    )


class PlannerLike(Protocol):
    """What plans: `backend.agents.Planner`."""

    def plan(self, request: Request, on_token: Callable[[str], None] | None = None) -> Plan: ...


def worded(text: str, constraints: PlanConstraints, wrong_count: int | None = None) -> str:
    """The request's text with the constraints in words; `wrong_count` is how many steps a first plan had."""
    count = ""
    if constraints.step_count:
        wrong = f", not {wrong_count}" if wrong_count else ""
        count = (
            f"In exactly {constraints.step_count} step{'s' if constraints.step_count > 1 else ''}{wrong}: "
        )
    return f"{count}{text}{CAPTION_WORDS[constraints.captions]}"


def plan_as_wished(
    planner: PlannerLike,
    request: Request,
    constraints: PlanConstraints,
    on_token: Callable[[str], None] | None = None,
) -> Plan:
    """The plan of a request with the constraints; raises AnswerError if two plans have another number of
    steps than wished, and whatever the planner raises."""
    counts: list[int] = []
    while len(counts) < 2:
        text = worded(request.text, constraints, counts[-1] if counts else None)
        plan = planner.plan(Request(text=text, images=request.images), on_token)
        if constraints.step_count in (0, len(plan.steps)):
            return _without_captions(plan) if constraints.captions == "none" else plan
        counts.append(len(plan.steps))
    raise AnswerError(
        (
            f"{constraints.step_count} steps were asked for, but the agent planned {counts[0]} and then "
            f"{counts[1]}."
        ),
        hint="Choose another number or 0, or say in the request what happens in each step.",
    )


def _without_captions(plan: Plan) -> Plan:
    """The plan with words in its steps of text alone."""
    steps = (step.model_copy(update={"auxiliary_text": None}) if step.prompt else step for step in plan.steps)
    return plan.model_copy(update={"steps": tuple(steps)})

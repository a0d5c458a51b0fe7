"""What a person wants of a plan besides the request: how many steps, which captions, which style.

Decision: agents are given them in words, as part of the request, since that is all that every checkpoint's
prompt set can take. What can be counted is then checked, also a number that the request itself names: a
plan of another length is asked for once more, and after that the nearest is taken with a warning, or refused,
but never cut: nobody knows what a missing step would have shown. A style is nothing for the agent: it stands
in the plan and is put before every prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from pydantic import Field

from ..errors import AnswerError, ChatError, InterleaveError
from ..types import MAX_STEPS, MAX_STYLE, Plan, Request, Value
from .asked_count import asked_count
from .planner import IN_ONE_REPLY

CaptionStyle = Literal["as asked", "none", "short", "paragraph"]
# Simple words that small planners know too.
CAPTION_WORDS: dict[CaptionStyle, str] = {
    "as asked": "",
    "none": " No captions.",
    "short": " Write a short caption for every picture.",
    "paragraph": " Write a paragraph for every picture.",
}


class PlanConstraints(Value):
    """What the plan is to be like, besides the request."""

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
    exact_count: bool = Field(
        default=False,
        description="Refuse a plan with another number of steps than asked for. Without this the nearest of "
        "two plans is taken, with a warning.",
    )
    style: str = Field(
        default="",
        max_length=MAX_STYLE,
        description="A sentence that stands before every prompt as it is drawn, such as 'Watercolour on "
        "rough paper' or 'Mia has red curls and a green coat'. The critic knows it, too.",
    )


class PlanWriter(Protocol):
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


def constrained_plan(
    planner: PlanWriter,
    request: Request,
    constraints: PlanConstraints,
    on_token: Callable[[str], None] | None = None,
) -> Plan:
    """Plan a request under constraints.

    Returns:
        The plan. If two plans have another number of steps than asked, here or in the request's own words,
        the nearest (of equally near ones the later); if the second one fails, the first. `warning` says so.

    Raises:
        AnswerError: With `exact_count`, no plan has the number of steps.
        InterleaveError: Whatever the planner raises at the first plan, or with `exact_count` at the second.
    """
    named = 0 if constraints.step_count else _named_count(request.text)
    wanted, plans = constraints.step_count or named, list[Plan]()
    while len(plans) < 2:
        # The first time, the request's own number is enough. The second time it is also a constraint.
        told = constraints.model_copy(update={"step_count": wanted}) if plans else constraints
        text = worded(request.text, told, len(plans[-1].steps) if plans else None)
        try:
            plan = planner.plan(Request(text=text, images=request.images), on_token)
        except (AnswerError, ChatError) as error:
            if not plans or constraints.exact_count:
                raise
            return _finished(_of_another_length(plans[0], wanted, error), constraints)
        # A request may count its pictures alone.
        if wanted in (0, len(plan.steps)) or (
            named and wanted == sum(bool(step.prompt) for step in plan.steps)
        ):
            return _finished(plan, constraints)
        plans.append(plan)
    first, second = (len(plan.steps) for plan in plans)
    problem = f"{wanted} steps were asked for, but the agent planned {first} and then {second}"
    if constraints.exact_count:
        raise AnswerError(
            f"{problem}.", hint="Choose another number or 0, or say in the request what happens in each step."
        )
    nearest = min(reversed(plans), key=lambda plan: abs(len(plan.steps) - wanted))
    warning = f"{problem}. The plan of {len(nearest.steps)} is taken."
    return _finished(_with_warning(nearest, warning), constraints)


def _of_another_length(plan: Plan, wanted: int, error: InterleaveError) -> Plan:
    """The first plan where asking for another one failed."""
    warning = (
        f"{wanted} steps were asked for, but the agent planned {len(plan.steps)}. "
        f"Asking again failed: {error.message}"
    )
    return _with_warning(plan, warning)


def _with_warning(plan: Plan, warning: str) -> Plan:
    """Return the plan with a warning before its own."""
    return plan.model_copy(update={"warning": f"{warning} {plan.warning}".strip()})


def _named_count(text: str) -> int:
    """The number of steps that a request names beyond doubt, 0 if it names none. A longer plan is written in
    parts, and its outline is counted (long_plan.py)."""
    count = asked_count(text)
    return count.most if count is not None and count.exact and count.most <= IN_ONE_REPLY else 0


def _finished(plan: Plan, constraints: PlanConstraints) -> Plan:
    plan = _without_captions(plan) if constraints.captions == "none" else plan
    return plan.model_copy(update={"style": constraints.style.strip()})


def _without_captions(plan: Plan) -> Plan:
    """The plan with words in its steps of text alone."""
    steps = (step.model_copy(update={"auxiliary_text": None}) if step.prompt else step for step in plan.steps)
    return plan.model_copy(update={"steps": tuple(steps)})

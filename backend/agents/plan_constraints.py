"""Constraints of a plan in addition to the request: number of steps, captions, style.

Agents get the number and the captions as text in the request, since this works with the prompt set of any
checkpoint. What can be counted is then checked, including a number in the request itself: the planner is
asked again for a plan of another length, and after that the closer plan is used with a warning, or rejected.
It is never truncated, since the missing steps might be essential. The style is not sent to the agent: it is
part of the plan and is put before every prompt.
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
# Simple words that small planners know.
CAPTION_WORDS: dict[CaptionStyle, str] = {
    "as asked": "",
    "none": " No captions.",
    "short": " Write a short caption for every picture.",
    "paragraph": " Write a paragraph for every picture.",
}


class PlanConstraints(Value):
    """Constraints of a plan in addition to the request."""

    step_count: int = Field(
        default=0,
        ge=0,
        le=MAX_STEPS,
        description="Number of steps in the plan. Default (0): the planner decides.",
    )
    captions: CaptionStyle = Field(
        default="as asked",
        description="Text for each image: as the request asks, none, a short caption or a paragraph.",
    )
    exact_count: bool = Field(
        default=False,
        description="Fail if the plan has another number of steps than requested. Otherwise the planner is "
        "asked twice, and the closer plan is used with a warning.",
    )
    style: str = Field(
        default="",
        max_length=MAX_STYLE,
        description="Sentence that is put before every prompt, such as 'Watercolor on rough paper' or 'Mia "
        "has red curls and a green coat'. The critic sees it too.",
    )


class PlanWriter(Protocol):
    """The planner interface: `backend.agents.Planner`."""

    def plan(self, request: Request, on_token: Callable[[str], None] | None = None) -> Plan:
        """Return a plan with all steps of the request."""
        ...


def worded(text: str, constraints: PlanConstraints, wrong_count: int | None = None) -> str:
    """Return the request's text with the constraints as sentences.

    `wrong_count` is the number of steps of a first plan that did not meet them.
    """
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
        The plan. If two plans do not have the number of steps that the constraints or the request ask for,
        the closer one is returned (the second if both are equally close). If the second plan fails, the first
        is returned. `warning` then contains a message.

    Raises:
        AnswerError: With `exact_count`, neither plan has the number of steps.
        InterleaveError: The planner failed at the first plan, or with `exact_count` at the second.
    """
    named = 0 if constraints.step_count else _named_count(request.text)
    wanted, plans = constraints.step_count or named, list[Plan]()
    while len(plans) < 2:
        # The first time, the request's own number is enough. The second time it is also a constraint.
        asked = constraints.model_copy(update={"step_count": wanted}) if plans else constraints
        text = worded(request.text, asked, len(plans[-1].steps) if plans else None)
        try:
            plan = planner.plan(Request(text=text, images=request.images), on_token)
        except (AnswerError, ChatError) as error:
            if not plans or constraints.exact_count:
                raise
            return _finished(_of_another_length(plans[0], wanted, error), constraints)
        # The number in a request may count only its images.
        if wanted in (0, len(plan.steps)) or (
            named and wanted == sum(bool(step.prompt) for step in plan.steps)
        ):
            return _finished(plan, constraints)
        plans.append(plan)
    first, second = (len(plan.steps) for plan in plans)
    problem = f"{wanted} steps were requested, but the planner wrote {first} and then {second}"
    if constraints.exact_count:
        raise AnswerError(
            f"{problem}.",
            hint="Choose another number or 0, or describe in the request what happens in each step.",
        )
    nearest = min(reversed(plans), key=lambda plan: abs(len(plan.steps) - wanted))
    warning = f"{problem}. The plan of {len(nearest.steps)} is used."
    return _finished(_with_warning(nearest, warning), constraints)


def _of_another_length(plan: Plan, wanted: int, error: InterleaveError) -> Plan:
    """Return the first plan with a warning, after the request for another one failed."""
    warning = (
        f"{wanted} steps were requested, but the planner wrote {len(plan.steps)}. "
        f"Planning again failed: {error.message}"
    )
    return _with_warning(plan, warning)


def _with_warning(plan: Plan, warning: str) -> Plan:
    """Return the plan with a warning before its own."""
    return plan.model_copy(update={"warning": f"{warning} {plan.warning}".strip()})


def _named_count(text: str) -> int:
    """Return the number of steps that a request clearly names, 0 if it names none.

    A longer plan is written in parts, and its outline is counted (long_plan.py).
    """
    count = asked_count(text)
    return count.most if count is not None and count.exact and count.most <= IN_ONE_REPLY else 0


def _finished(plan: Plan, constraints: PlanConstraints) -> Plan:
    plan = _without_captions(plan) if constraints.captions == "none" else plan
    return plan.model_copy(update={"style": constraints.style.strip()})


def _without_captions(plan: Plan) -> Plan:
    """Return the plan with texts only in its text-only steps."""
    steps = (step.model_copy(update={"auxiliary_text": None}) if step.prompt else step for step in plan.steps)
    return plan.model_copy(update={"steps": tuple(steps)})

"""Constraints of a plan in addition to the request: number of steps, captions, style.

Agents get the number and the captions as text in the request, since this works with the prompt set of any
checkpoint. What can be counted is then checked, including a number in the request itself, and whether there
are images if the request asks for them. The planner is asked once more for an unsuitable plan, and after that
the better plan is used with a warning, or rejected if the number has to be exact. A plan is never truncated,
since the missing steps might be essential. The style is not sent to the agent: it is part of the plan and is
put before every prompt.

With `repair_plan`, the findings of the plan check (plan_lint.py) count as well: the planner is told them when
it is asked once more, and its second plan is used if it has fewer.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError, field_validator

from ...core.errors import AnswerError, ChatError, InterleaveError, SettingsError
from ...core.types import MAX_STEPS, MAX_STYLE, Plan, Request, UnusedSetting, Value
from ...core.types.roles import PartStore, PlannerLike
from ...core.types.values import DIRECT
from .asking import IMAGE_MARK, OnToken
from .plan_lint import COUNTED_RULES, PLANNER_WROTE, Asked, Finding, asked_in, lint, sentences
from .planner import IN_ONE_REPLY, Planner
from .requested import AskedCount

CaptionStyle = Literal["as requested", "none", "short", "paragraph"]
# Simple words that small planners know.
CAPTION_WORDS: dict[CaptionStyle, str] = {
    "as requested": "",
    "none": " No captions.",
    "short": " Write a short caption for every picture.",
    "paragraph": " Write a paragraph for every picture.",
}

WITH_IMAGES = " Every step needs an image: write its prompt."
REPAIR = "\n\nA first plan for this request had problems. Write a new plan without them. {problems}"
MAX_TOLD = 8
"""Maximum number of findings that the planner is told."""
PROBLEMS = "The plan check found problems."
NO_IMAGES = f"The request asks for images, but {PLANNER_WROTE} only text"


class PlanConstraints(Value):
    """Constraints of a plan in addition to the request."""

    step_count: int = Field(
        default=0,
        ge=0,
        le=MAX_STEPS,
        description="Number of steps in the plan. Default (0): the planner decides.",
        json_schema_extra=DIRECT,
    )
    captions: CaptionStyle = Field(
        default="as requested",
        description="Text for each image: as the request asks, none, a short caption or a paragraph.",
        json_schema_extra=DIRECT,
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
        json_schema_extra=DIRECT,
    )
    repair_plan: bool = Field(
        default=False,
        description="Ask the planner once more if the plan check finds problems, such as a repeated "
        "prompt. The second plan is used if it has fewer.",
    )

    @field_validator("captions", mode="before")
    @classmethod
    def _read_former(cls, value: object) -> object:
        """Read the value that files and workflows up to 0.3.0 have."""
        return "as requested" if value == "as asked" else value


def worded(
    text: str, constraints: PlanConstraints, wrong_count: int | None = None, no_images: bool = False
) -> str:
    """Return the request's text with the constraints as sentences.

    Args:
        text: The request.
        constraints: The constraints.
        wrong_count: Number of steps of a first plan that did not meet them.
        no_images: Whether a first plan had no images although the request asks for them.
    """
    count = ""
    if constraints.step_count:
        number = AskedCount(constraints.step_count, constraints.step_count, exact=True)
        count = _counted(number, wrong_count)
    return f"{count}{text}{CAPTION_WORDS[constraints.captions]}{WITH_IMAGES if no_images else ''}"


def _counted(count: AskedCount, wrong_count: int | None) -> str:
    wrong = f", not {wrong_count}" if wrong_count else ""
    exactly = "exactly " if count.exact else ""
    return f"In {exactly}{count.words} step{'s' if count.most > 1 else ''}{wrong}: "


def constrained_plan(
    planner: Planner,
    request: Request,
    constraints: PlanConstraints,
    on_token: OnToken | None = None,
    store: PartStore | None = None,
) -> Plan:
    """Plan a request under constraints.

    Returns:
        The plan. If the first plan does not have the number of steps that the constraints or the request ask
        for, or no images although the request asks for them, the planner is asked for a second one. If both
        are unsuitable, the better one is returned (the second if both are equally good). If the second plan
        fails, the first is returned. `warning` then contains a message. With `repair_plan`, a second plan is
        also requested for other findings, and returned only if it has fewer.

    Raises:
        AnswerError: With `exact_count`, neither plan has the number of steps.
        InterleaveError: The planner failed at the first plan, or with `exact_count` at the second.
    """
    asked = asked_in(request, constraints.step_count)

    def findings(plan: Plan) -> tuple[Finding, ...]:
        if not constraints.repair_plan or not _is_repaired(planner, plan):
            return ()
        found = lint(_finished(plan, constraints), request, asked)
        return tuple(one for one in found if one.rule not in COUNTED_RULES)

    text = worded(request.text, constraints)
    first = planner.plan(Request(text=text, images=request.images), on_token, store)
    found = findings(first)
    if asked.is_met(first) and not found:
        return _finished(first, constraints)
    must_retry = constraints.exact_count and asked.distance(first) > 0
    if not must_retry and not asked.lacks_images(first) and _was_counted_twice(planner, asked):
        warning = f"{_requested(asked)}, but {PLANNER_WROTE} {len(first.steps)}."
        return _finished(_with_warning(first, warning), constraints)
    second_text = _second_text(request.text, constraints, asked, first) + _told(found)
    try:
        asked_again = Request(text=second_text, images=request.images)
        second = planner.for_second_answer().plan(asked_again, on_token, store)
    except (AnswerError, ChatError, SettingsError) as error:
        if must_retry:
            raise
        return _finished(_with_warning(first, _failed_twice(first, asked, error)), constraints)
    if asked.is_met(first):
        is_better = asked.is_met(second) and len(findings(second)) < len(found)
        return _finished(second if is_better else first, constraints)
    if asked.is_met(second):
        return _finished(second, constraints)
    plans = [second, first]
    if constraints.exact_count:
        plans = [plan for plan in plans if not asked.distance(plan)]
        if not plans:
            raise AnswerError(
                f"{_count_problem(first, second, asked)}.",
                hint="Choose another number or 0, or describe in the request what happens in each step.",
            )
    best = min(plans, key=lambda plan: (asked.lacks_images(plan), asked.distance(plan), len(findings(plan))))
    return _finished(_with_warning(best, _warning(best, first, second, asked)), constraints)


def _is_repaired(planner: Planner, plan: Plan) -> bool:
    """Return whether a second plan is requested for findings.

    A plan in parts would cost all its replies a second time. A checkpoint with a prompt set of its own never
    learned what to do with findings.
    """
    return not planner.has_own_prompt_set and len(plan.steps) <= IN_ONE_REPLY


def _told(findings: tuple[Finding, ...]) -> str:
    """Return findings as they are added to the request."""
    if not findings:
        return ""
    return REPAIR.format(problems=sentences(findings[:MAX_TOLD]).replace(IMAGE_MARK, "image"))


def _was_counted_twice(planner: Planner, asked: Asked) -> bool:
    """Return whether the steps of the plan's outline were counted, and requested again (`LongPlan`)."""
    return (
        asked.named
        and asked.count is not None
        and asked.count.most > IN_ONE_REPLY
        and planner.prompt_set.has_parts
    )


def _second_text(text: str, constraints: PlanConstraints, asked: Asked, first: Plan) -> str:
    """Return the request for a second plan, with what the first one lacks."""
    wrong = len(first.steps) if asked.distance(first) else None
    told = worded(text, constraints.model_copy(update={"step_count": 0}), no_images=asked.lacks_images(first))
    # The first time, the request's own number is enough.
    return told if asked.count is None else f"{_counted(asked.count, wrong)}{told}"


def _requested(asked: Asked) -> str:
    assert asked.count is not None, "called only if a number of steps was requested"
    return f"{asked.count.words} steps were requested"


def _count_problem(first: Plan, second: Plan, asked: Asked) -> str:
    return f"{_requested(asked)}, but {PLANNER_WROTE} {len(first.steps)} and then {len(second.steps)}"


def _warning(best: Plan, first: Plan, second: Plan, asked: Asked) -> str:
    """Return what the better of two unsuitable plans lacks."""
    warnings = []
    if asked.distance(best):
        reason = "" if asked.lacks_images(first) == asked.lacks_images(second) else ", which has images,"
        warnings.append(
            f"{_count_problem(first, second, asked)}. The plan of {len(best.steps)}{reason} is used."
        )
    if asked.lacks_images(best):
        warnings.append(f"{NO_IMAGES}, also when it was asked again.")
    return " ".join(warnings)


def _failed_twice(plan: Plan, asked: Asked, error: InterleaveError) -> str:
    """Return what the first plan lacks, after the request for another one failed."""
    problem = f"{NO_IMAGES}." if asked.lacks_images(plan) else PROBLEMS
    if asked.distance(plan):
        problem = f"{_requested(asked)}, but {PLANNER_WROTE} {len(plan.steps)}."
    return f"{problem} Planning again failed: {error.message}"


def _with_warning(plan: Plan, warning: str) -> Plan:
    """Return the plan with a warning before its own."""
    return plan.model_copy(update={"warning": f"{warning} {plan.warning}".strip()})


def _finished(plan: Plan, constraints: PlanConstraints) -> Plan:
    plan = _without_captions(plan) if constraints.captions == "none" else plan
    return plan.model_copy(update={"style": constraints.style.strip()})


def _without_captions(plan: Plan) -> Plan:
    """Return the plan with texts only in its text-only steps."""
    steps = (step.model_copy(update={"auxiliary_text": None}) if step.prompt else step for step in plan.steps)
    return plan.model_copy(update={"steps": tuple(steps)})


class ConstrainedPlanner(PlannerLike):
    """A planner with constraints, for a loop that calls the planner itself (as the command line does).

    The constraints are part of the identity, since another style or count gives another plan. Without
    constraints the identity is that of the wrapped planner, so old runs can be resumed.

    Args:
        planner: The planner.
        constraints: The constraints.
        store: Store for the parts of an unfinished plan. The caller clears it at the end.
    """

    def __init__(
        self, planner: Planner, constraints: PlanConstraints, store: PartStore | None = None
    ) -> None:
        self._planner, self._constraints, self._store = planner, constraints, store

    @property
    def identity(self) -> str:
        """Identity of the wrapped planner, with the constraints."""
        given = self._constraints.model_dump_json(exclude_defaults=True)
        return self._planner.identity + (f"|{given}" if given != "{}" else "")

    @property
    def prompt_set_digest(self) -> str:
        """Digest of the prompt set."""
        return self._planner.prompt_set_digest

    @property
    def unused_settings(self) -> tuple[UnusedSetting, ...]:
        """Settings of the wrapped planner that its backend does not support."""
        return self._planner.unused_settings

    def plan(self, request: Request) -> Plan:
        """Return a plan that meets the constraints.

        Raises:
            AnswerError: No plan has the exact number of steps, or two replies could not be parsed.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        return constrained_plan(self._planner, request, self._constraints, store=self._store)

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

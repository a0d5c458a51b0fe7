"""A plan's reward, term by term and summed: nothing is drawn, and nothing of any trainer or judge is in it.

Decisions. Every function is pure. A plan that cannot be read is worth nothing beside its form, and so is one
that copies its request into a prompt: a list is covered by repeating what was asked, and no image model can
follow it. Length is a fit to what was asked and never a gain, so that longer plans are not worth more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from ....backend.agents.asked_count import asked_count
from ....backend.answers.reading import PLAN_KEYS, read_plan
from ....backend.errors import AnswerError
from ....backend.types import Plan
from ...data.rows.planner_rl import PlannerRlRow, StepRange
from ..terms import only_object

MIN_WORDS = 24
"""Words of a request below which nothing is said to be copied from it: its first step may be most of it."""
MAX_WORDS, PROMPT_WORDS = 2000, 400
_WORD = re.compile(r"\w+")


class PlanRewardSettings(BaseModel):
    """Settings of a planner's reward."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format_weight: float = Field(
        default=0.2, ge=0, le=1, description="Weight of the form; the rest is the content's."
    )
    match_weight: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Weight in the content of being what was asked for: steps that are right (tiny world), "
        "or the share of the checklist that is covered.",
    )
    consistency_weight: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Weight in the content of steps that find what they act on in the steps before them.",
    )
    length_weight: float = Field(
        default=0.2, ge=0, le=1, description="Weight in the content of as many steps as were asked for."
    )
    most_copied: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="Share of a request's words that one prompt may repeat in a row; past it, a plan of "
        "several steps has no content.",
    )


DEFAULTS = PlanRewardSettings()


def plan_format(text: str) -> float:
    """1.0 if the answer has the form that was taught, else 0.0: one `<answer>` whose only object holds a
    plan, not repaired; a `<think>`, if there is one, is closed and stands before it."""
    found = only_object(text)
    return float(found is not None and list(found) == list(PLAN_KEYS) and plan_in(text) is not None)


def plan_in(text: str) -> Plan | None:
    """The plan as the running system would read it, None if it cannot be read."""
    try:
        return read_plan(text)
    except AnswerError:
        return None


def asked_steps(row: PlannerRlRow) -> StepRange | None:
    """How many steps the request asks for: as its row says, else those of the reference, else in its own
    words if they are exact."""
    if row.steps is not None:
        return row.steps
    if row.reference:
        return StepRange(least=len(row.reference), most=len(row.reference))
    count = asked_count(row.request)
    return StepRange(least=count.least, most=count.most) if count and count.exact else None


def length_fit(count: int, asked: StepRange | None) -> float:
    """1.0 for as many steps as were asked for, less by 1 / (the number asked for) for each too many or too
    few; 1.0 where no number was asked for."""
    if asked is None:
        return 1.0
    off, number = (
        (count - asked.most, asked.most) if count > asked.most else (asked.least - count, asked.least)
    )
    return max(0.0, 1.0 - max(0, off) / number)


def copied_share(plan: Plan, request: str) -> float:
    """The longest run of the request's words in one prompt, as a share of the request's words (of as many as
    are looked at in a prompt, if it has more), 0..1; 0 for a short request and a plan of one step, which may
    well repeat it."""
    words = _words(request, MAX_WORDS)
    prompts = [step.prompt for step in plan.steps if step.prompt]
    if len(words) < MIN_WORDS or len(prompts) < 2:
        return 0.0
    text, longest = f" {' '.join(words)} ", 0
    for prompt in prompts:
        longest = _longest_run(text, _words(prompt, PROMPT_WORDS), longest)
    return longest / min(len(words), PROMPT_WORDS)


def _words(text: str, most: int) -> list[str]:
    return _WORD.findall(text.lower())[:most]


def _longest_run(text: str, words: Sequence[str], least: int) -> int:
    """Words of the longest run of `words` that stands in the text, or `least` if none is longer: by halving,
    since a run holds all shorter ones."""
    most = len(words)
    while least < most:
        length = (least + most + 1) // 2
        runs = (f" {' '.join(words[at : at + length])} " for at in range(len(words) - length + 1))
        if any(run in text for run in runs):
            least = length
        else:
            most = length - 1
    return least


def combine_plan(
    *,
    format: float,
    match: float,
    consistency: float,
    length: float,
    weights: PlanRewardSettings = DEFAULTS,
) -> float:
    """The reward, 0..1 for terms of 0..1: 0.2 x format + 0.8 x (0.6 x match + 0.2 x consistency + 0.2 x
    length). All weights are ours."""
    content = (
        weights.match_weight * match
        + weights.consistency_weight * consistency
        + weights.length_weight * length
    )
    return weights.format_weight * format + (1 - weights.format_weight) * content

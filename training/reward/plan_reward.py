"""Reward of a planner for a batch of answers: plans are parsed and judged.

All functions are pure. A plan that cannot be parsed gets only the format term, and so does one that copies
its request into a prompt: a checklist is covered by repeating the request, but no image model could follow
it. The length term measures the fit to the requested number of steps, so that longer plans gain nothing. The
paper does not train the planner with a reward; these formulas are described in docs/reference/file-
formats.md, Rewards.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.answers.reading import PLAN_KEYS, read_plan
from ...backend.core.errors import AnswerError
from ...backend.core.types import Plan
from ...backend.story.agents.requested import asked_count
from ..rows.rl import PlannerRlRow, StepRange
from .plan_judges import PlanJudging, PlanOutcome
from .rollout_reward import Rewarded, RolloutReading, RolloutReward, mean
from .terms import only_object

MIN_WORDS = 24
"""Number of words of a request below which copying is not measured, as its first step may repeat most of it.
"""
MAX_WORDS, PROMPT_WORDS = 2000, 400
_WORD = re.compile(r"\w+")


class PlanRewardSettings(BaseModel):
    """Settings of a planner's reward."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format_weight: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Weight of the answer's format; the rest is the weight of its content.",
    )
    match_weight: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Weight within the content of fulfilling the request: share of right steps (tiny world) "
        "or of covered checklist items.",
    )
    consistency_weight: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Weight within the content of steps whose preconditions the earlier steps meet.",
    )
    length_weight: float = Field(
        default=0.2, ge=0, le=1, description="Weight within the content of the requested number of steps."
    )
    most_copied: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="Largest share of a request's words that one prompt may repeat in a row. A plan of "
        "several steps above it gets only the format term.",
    )


DEFAULTS = PlanRewardSettings()


def plan_format(text: str) -> float:
    """Return 1.0 if the answer has exactly the taught format, else 0.0.

    The format is one `<answer>` whose only object is a plan that did not need repair. A `<think>`, if
    present, is closed and precedes it.
    """
    found = only_object(text)
    return float(found is not None and list(found) == list(PLAN_KEYS) and plan_in(text) is not None)


def plan_in(text: str) -> Plan | None:
    """Return the plan as the running system parses it, or None."""
    try:
        return read_plan(text)
    except AnswerError:
        return None


def asked_steps(row: PlannerRlRow) -> StepRange | None:
    """Return the requested number of steps: from the row, its reference or the request's text.

    The text counts only if its number is exact.
    """
    if row.steps is not None:
        return row.steps
    if row.reference:
        return StepRange(least=len(row.reference), most=len(row.reference))
    count = asked_count(row.request)
    return StepRange(least=count.least, most=count.most) if count and count.exact else None


def length_fit(count: int, asked: StepRange | None) -> float:
    """Return 1.0 for the requested number of steps, reduced by 1 / number for each step too many or too few.

    Without a requested number it is 1.0.
    """
    if asked is None:
        return 1.0
    off, number = (
        (count - asked.most, asked.most) if count > asked.most else (asked.least - count, asked.least)
    )
    return max(0.0, 1.0 - max(0, off) / number)


def copied_share(plan: Plan, request: str) -> float:
    """Return the longest run of the request's words in one prompt, as a share of the request's words, 0 to 1.

    Of a long request only as much counts as is compared in a prompt. For a short request, and for a plan of
    one step, which may repeat it, the share is 0.
    """
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
    """Return the length of the longest run of `words` in the text, or `least` if none is longer.

    The length is found by bisection, since a run contains all shorter ones.
    """
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
    """Return the reward, 0 to 1: 0.2 format + 0.8 (0.6 match + 0.2 consistency + 0.2 length).

    All terms are 0 to 1. The weights are ours (docs/reference/file-formats.md, Rewards).
    """
    content = (
        weights.match_weight * match
        + weights.consistency_weight * consistency
        + weights.length_weight * length
    )
    return weights.format_weight * format + (1 - weights.format_weight) * content


LAST_PLANS = 256
MIN_PLANS = 64
OFTEN = 0.1
"""Share of recent plans that copy their requests above which there is a warning."""


class PlanSample(Rewarded):
    """An answer with its parts, 0 to 1 each; `exact` is None if unknown."""

    request: str
    steps: int = 0
    format: float
    match: float = 0.0
    consistency: float = 0.0
    length: float = 0.0
    copied: float = 0.0
    exact: bool | None = None


class PlannerReward(RolloutReward[PlannerRlRow, PlanSample]):
    """Rewards the answers of a planner."""

    row_type = PlannerRlRow

    def __init__(
        self,
        judging: PlanJudging,
        settings: PlanRewardSettings,
        reading: RolloutReading,
        rollouts: Path | None = None,
    ) -> None:
        super().__init__(reading, rollouts)
        self.judging = judging
        self.settings = settings
        self._copies: deque[bool] = deque(maxlen=LAST_PLANS)

    def problem(self, at_end: bool = False) -> str | None:
        """Return why training must pause because too many judgments fail, else None."""
        return self.judging.problem(at_end)

    @property
    def warning(self) -> str | None:
        """Warning that the planner copies requests into prompts, else None."""
        share = sum(self._copies) / len(self._copies) if len(self._copies) >= MIN_PLANS else 0.0
        if share < OFTEN:
            return None
        return f"{share:.0%} of the last {len(self._copies)} plans copy their requests into a prompt"

    async def judged(
        self, answers: Sequence[str], rows: Sequence[PlannerRlRow]
    ) -> tuple[list[PlanSample], dict[str, float]]:
        """Return a sample for each answer to the row at the same index, and the measures of the batch."""
        samples = await plan_samples(answers, rows, self.judging, self.settings, self.reading.images)
        self._copies.extend(sample.copied > self.settings.most_copied for sample in samples)
        return samples, plan_measures(samples)


async def plan_samples(
    answers: Sequence[str],
    rows: Sequence[PlannerRlRow],
    judging: PlanJudging,
    settings: PlanRewardSettings,
    folder: Path,
) -> list[PlanSample]:
    """Return a sample for each answer to the row at the same index.

    Raises:
        SettingsError: A cache cannot be used.
        Cancelled: The run was cancelled.
    """
    plans = [plan_in(answer) for answer in answers]
    copied = [copied_share(plan, row.request) if plan else 0.0 for plan, row in zip(plans, rows, strict=True)]
    judged = [
        plan if share <= settings.most_copied else None for plan, share in zip(plans, copied, strict=True)
    ]
    outcomes = await judging.score_all(rows, judged, folder)
    return [
        _sample(one, row, plan, share, outcome, settings)
        for one, row, plan, share, outcome in zip(answers, rows, plans, copied, outcomes, strict=True)
    ]


def _sample(
    answer: str,
    row: PlannerRlRow,
    plan: Plan | None,
    copied: float,
    outcome: PlanOutcome | None,
    settings: PlanRewardSettings,
) -> PlanSample:
    form = plan_format(answer)
    count = len(plan.steps) if plan else 0
    sample = PlanSample(answer=answer, request=row.request, steps=count, format=form, copied=copied)
    if plan is None or outcome is None:
        overall = combine_plan(format=form, match=0.0, consistency=0.0, length=0.0, weights=settings)
        return sample.model_copy(update={"overall": overall, "exact": False if row.reference else None})
    if outcome.score is None:
        return sample.model_copy(update={"fault": outcome.fault})
    length = length_fit(count, asked_steps(row))
    score = outcome.score
    overall = combine_plan(
        format=form, match=score.match, consistency=score.consistency, length=length, weights=settings
    )
    return sample.model_copy(update={**score.model_dump(), "length": length, "overall": overall})


def plan_measures(samples: Sequence[PlanSample]) -> dict[str, float]:
    """Return the measures of a batch: mean parts of the samples that count, and the failures."""
    counted = [sample for sample in samples if sample.overall is not None]
    parts = {
        f"reward/{name}": mean([float(getattr(sample, name) or 0.0) for sample in counted])
        for name in ("format", "match", "consistency", "length", "overall")
    }
    known = [sample.exact for sample in counted if sample.exact is not None]
    return parts | {
        "plan/exact": mean([float(exact) for exact in known]),
        "plan/copied": mean([sample.copied for sample in samples]),
        "plan/steps": mean([float(sample.steps) for sample in samples if sample.steps]),
        "plan/failed": 1.0 - len(counted) / len(samples) if samples else 0.0,
    }

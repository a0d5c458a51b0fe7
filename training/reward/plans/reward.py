"""Reward of a planner for a batch of answers: plans are parsed and judged.

An answer that cannot be parsed as a plan gets only its format reward, which is then 0, and is not judged.
Neither is a plan that copies its request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from ....backend.types import Plan
from ...data.rows.rl import PlannerRlRow
from ...trainer.step_clock import StepClock
from ..rollout_reward import Rewarded, RolloutReading, RolloutReward, mean
from .judging import PlanJudging, PlanOutcome
from .terms import (
    PlanRewardSettings,
    asked_steps,
    combine_plan,
    copied_share,
    length_fit,
    plan_format,
    plan_in,
)

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
        clock: StepClock | None = None,
    ) -> None:
        super().__init__(reading, rollouts, clock)
        self.judging = judging
        self.settings = settings
        self._copies: deque[bool] = deque(maxlen=LAST_PLANS)

    @property
    def problem(self) -> str | None:
        """Why training must pause because too many judgments fail, else None."""
        return self.judging.problem

    @property
    def problem_at_end(self) -> str | None:
        """Like `problem`, after the last judgment, when a few failures are enough."""
        return self.judging.problem_at_end

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

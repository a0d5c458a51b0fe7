"""Checks of held-out answers during preference training, and the conditions under which it stops.

The loss only asks that the rejected answer becomes less likely than the chosen one, so pairs can be separated
better and better while the agent's own answers get worse. Its answers are therefore generated and compared
with the truth, as in GRPO training. Watched are also the ways in which the loss can fall without better
answers: longer answers, the same verdict for all images, and answers in the wrong format.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from ..data.rows.preference import CriticPair
from ..gate.held_out import STORED_ANSWERS, Check, HeldOutCheck, critic_check
from ..gate.plan_checks import MAX_GROWTH
from ..reward.plans.terms import plan_format, plan_in
from ..reward.rollout_reward import mean

MIN_TOKENS = 1.0
"""Smallest length of the first answers, in tokens, that growth is measured against."""


def grown(check: HeldOutCheck, first: HeldOutCheck) -> str | None:
    """Return the reason to stop if answers have grown so much that length is what is learned, else None."""
    if check.tokens <= MAX_GROWTH * max(MIN_TOKENS, first.tokens):
        return None
    return f"held-out answers have grown to {check.tokens:.0f} tokens, from {first.tokens:.0f} at the start"


class CriticPairCheck(Check):
    """Result of a check of a critic."""

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """Return the recalls below the floor or the growth of the answers as a reason to stop, else None."""
        return super().low(floor, first) or grown(self, first)


def critic_pair_check(
    rows: Sequence[CriticPair], answers: Sequence[str], tokens: Sequence[int], verdict_first: bool
) -> CriticPairCheck:
    """Return the check of a critic's answers to the questions of these pairs."""
    found = critic_check([row.truth for row in rows], answers, tokens, verdict_first)
    return CriticPairCheck.model_validate(found.model_dump())


class PlanFormCheck(HeldOutCheck):
    """Result of a check of plans without a judge; `steps` is the mean length of the parsable plans."""

    steps: float = Field(ge=0)

    def __str__(self) -> str:
        return (
            f"format {self.format:.2f}, {self.steps:.1f} steps, {self.tokens:.0f} tokens ({self.rows} rows)"
        )

    def measures(self) -> dict[str, float]:
        """Return the share of answers that are plans."""
        return {"held_out/format": self.format}

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """Return the loss of parsable plans or the growth of the answers as a reason to stop, else None."""
        if first.format == 0.0 and self is first:
            return "none of the held-out answers is a plan"
        if self.format < floor * first.format:
            return (
                f"{self.format:.0%} of the held-out answers are plans, down from {first.format:.0%} at the "
                "start"
            )
        return grown(self, first)


def plan_form_check(answers: Sequence[str], tokens: Sequence[int]) -> PlanFormCheck:
    """Return the check of these answers, by their format only."""
    plans = [plan for plan in map(plan_in, answers) if plan is not None]
    return PlanFormCheck(
        rows=len(answers),
        format=mean([plan_format(answer) for answer in answers]),
        tokens=mean([float(length) for length in tokens]),
        answers=list(answers[:STORED_ANSWERS]),
        steps=mean([float(len(plan.steps)) for plan in plans]) if plans else 0.0,
    )

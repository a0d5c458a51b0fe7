"""What is found of an agent on held-out questions during preference training, and when it has to stop.

Decision: a pair can be told apart better and better while the answers that the agent gives itself get worse:
the loss only asks that the rejected one becomes rarer faster. So the answers are asked for and held against
what is known, as in reinforcement, and what a loss can be won by without being right is watched beside it:
longer answers, one verdict for all, an answer without its form.
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
"""Tokens below which a first answer's length says nothing."""


def grown(check: HeldOutCheck, first: HeldOutCheck) -> str | None:
    """That answers have become so much longer that length is what is learned; else None."""
    if check.tokens <= MAX_GROWTH * max(MIN_TOKENS, first.tokens):
        return None
    return f"held-out answers of {check.tokens:.0f} tokens, which had {first.tokens:.0f} at the start"


class CriticPairCheck(Check):
    """What a check found of a critic."""

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """The recalls below the floor, or answers that grew."""
        return super().low(floor, first) or grown(self, first)


def critic_pair_check(
    rows: Sequence[CriticPair], answers: Sequence[str], tokens: Sequence[int], verdict_first: bool
) -> CriticPairCheck:
    """The check of a critic's answers to these pairs' questions."""
    found = critic_check([row.truth for row in rows], answers, tokens, verdict_first)
    return CriticPairCheck.model_validate(found.model_dump())


class PlanFormCheck(HeldOutCheck):
    """What a check found of plans that nobody judges; `steps`: their mean number, of those that can be
    read."""

    steps: float = Field(ge=0)

    def __str__(self) -> str:
        return (
            f"format {self.format:.2f}, {self.steps:.1f} steps, {self.tokens:.0f} tokens ({self.rows} rows)"
        )

    def measures(self) -> dict[str, float]:
        """The share that has the form of a plan."""
        return {"held_out/format": self.format}

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """Fewer plans that can be read, or answers that grew."""
        if first.format == 0.0 and self is first:
            return "no held-out answer is a plan"
        if self.format < floor * first.format:
            return f"{self.format:.0%} of the held-out answers are plans, {first.format:.0%} at the start"
        return grown(self, first)


def plan_form_check(answers: Sequence[str], tokens: Sequence[int]) -> PlanFormCheck:
    """The check of these answers by their form alone."""
    plans = [plan for plan in map(plan_in, answers) if plan is not None]
    return PlanFormCheck(
        rows=len(answers),
        format=mean([plan_format(answer) for answer in answers]),
        tokens=mean([float(length) for length in tokens]),
        answers=list(answers[:STORED_ANSWERS]),
        steps=mean([float(len(plan.steps)) for plan in plans]) if plans else 0.0,
    )

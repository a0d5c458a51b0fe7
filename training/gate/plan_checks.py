"""Checks of a planner on held-out rows, and the conditions under which its GRPO training stops.

The judge of the rewards also judges the greedy answers to rows that are not trained on. Ways to gain reward
without planning better are measured too: longer answers and copied requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from ...backend.errors import TrainingError
from ..reward.plans.reward import PlanSample
from ..reward.rollout_reward import mean
from .held_out import STORED_ANSWERS, HeldOutCheck

MAX_GROWTH = 2.0
"""Ratio of the answers' length to that of the first check above which training stops."""
MAX_COPIES = 0.2
"""Share of held-out plans that copy their requests, above that of the first check, at which training stops.
"""

MIN_JUDGED = 0.5
"""Share of held-out plans that must be judged for a valid check."""


class PlanCheck(HeldOutCheck):
    """Means over held-out plans.

    Attributes:
        judged: Number of plans that could be judged.
        match: Share of the required content that the plans have.
        exact: Share of exact plans, or None if unknown.
        consistency: Consistency term of the reward.
        length: Length term of the reward.
        copies: Share of plans that copy their requests.
    """

    judged: int
    match: float = Field(ge=0, le=1)
    exact: float | None
    consistency: float = Field(ge=0, le=1)
    length: float = Field(ge=0, le=1)
    copies: float = Field(ge=0, le=1)

    def __str__(self) -> str:
        exact = "" if self.exact is None else f"exact {self.exact:.2f}, "
        return (
            f"{exact}match {self.match:.2f}, consistency {self.consistency:.2f}, "
            f"length {self.length:.2f}, format {self.format:.2f}, copied {self.copies:.2f}, "
            f"{self.tokens:.0f} tokens ({self.rows} rows)"
        )

    def measures(self) -> dict[str, float]:
        """Return match, exactness and copies."""
        found = {"match": self.match, "exact": self.exact, "copies": self.copies}
        return {f"held_out/{name}": value for name, value in found.items() if value is not None}

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """Return a low match, grown answers or copied requests as a reason to stop, else None."""
        assert isinstance(first, PlanCheck)
        if first.match == 0.0 and self is first:
            return "none of the held-out plans has any of the required content"
        if self.match < floor * first.match:
            return (
                f"the match on held-out rows is {self.match:.2f}, below {floor:g} times the "
                f"{first.match:.2f} at the start"
            )
        if self.tokens > MAX_GROWTH * max(1.0, first.tokens):
            return f"answers have grown to {self.tokens:.0f} tokens, from {first.tokens:.0f} at the start"
        if self.copies > first.copies + MAX_COPIES:
            return f"{self.copies:.0%} of the held-out plans copy their request into a prompt"
        return None


def plan_check(samples: Sequence[PlanSample], tokens: Sequence[int], most_copied: float) -> PlanCheck:
    """Return the check of these held-out answers.

    Raises:
        TrainingError: Too few of them could be judged.
    """
    counted = [sample for sample in samples if sample.overall is not None]
    # The mean of the few judged during an outage could stop the training for good.
    if len(counted) < MIN_JUDGED * len(samples):
        fault = next(sample.fault for sample in samples if sample.overall is None)
        raise TrainingError(
            f"Only {len(counted)} of {len(samples)} held-out plans could be judged: {fault}",
            "Fix the problem, then run the same command again.",
        )
    known = [sample.exact for sample in counted if sample.exact is not None]
    return PlanCheck(
        rows=len(samples),
        judged=len(counted),
        match=mean([sample.match for sample in counted]),
        exact=mean([float(exact) for exact in known]) if known else None,
        consistency=mean([sample.consistency for sample in counted]),
        length=mean([sample.length for sample in counted]),
        copies=mean([float(sample.copied > most_copied) for sample in samples]),
        format=mean([sample.format for sample in samples]),
        tokens=mean([float(length) for length in tokens]),
        answers=[sample.answer for sample in samples[:STORED_ANSWERS]],
    )

"""What is found of a planner on held-out rows, and when its reinforcement has to stop.

Decision: the same judge that rewards judges here, on rows that are not trained on and on greedy answers; what
a reward can be won by without planning better, longer answers and copied requests, is watched beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from ...backend.errors import TrainingError
from ..reward.plans.reward import PlanSample
from ..reward.rollout_reward import mean
from .held_out import STORED_ANSWERS, HeldOutCheck

MAX_GROWTH = 2.0
"""Times the length of the first check's answers past which a planner is said to talk."""
MAX_COPIES = 0.2
"""Share of held-out plans that copy their requests past which training stops, above the first check's."""

MIN_JUDGED = 0.5
"""Share of held-out plans without which a check says nothing."""


class PlanCheck(HeldOutCheck):
    """Means over held-out plans, 0..1; `exact` None where that cannot be known, `copies` the share of plans
    that copy their requests. `judged`: how many could be judged."""

    judged: int
    match: float = Field(ge=0, le=1)
    exact: float | None
    consistency: float = Field(ge=0, le=1)
    length: float = Field(ge=0, le=1)
    copies: float = Field(ge=0, le=1)

    def __str__(self) -> str:
        exact = "" if self.exact is None else f"exact {self.exact:.2f}, "
        return (
            f"{exact}match {self.match:.2f}, consistency {self.consistency:.2f}, length {self.length:.2f}, "
            f"format {self.format:.2f}, copied {self.copies:.2f}, {self.tokens:.0f} tokens ({self.rows} rows)"
        )

    def measures(self) -> dict[str, float]:
        """Match, exactness, copies."""
        found = {"match": self.match, "exact": self.exact, "copies": self.copies}
        return {f"held_out/{name}": value for name, value in found.items() if value is not None}

    def low(self, floor: float, first: HeldOutCheck) -> str | None:
        """A match below `floor` times the first check's, answers that grew, requests that are copied."""
        assert isinstance(first, PlanCheck)
        if first.match == 0.0 and self is first:
            return "no held-out plan has anything of what was asked for"
        if self.match < floor * first.match:
            return (
                f"a match of {self.match:.2f} on held-out rows, below {floor:g} times the {first.match:.2f} "
                "at the start"
            )
        if self.tokens > MAX_GROWTH * max(1.0, first.tokens):
            return f"answers of {self.tokens:.0f} tokens, which had {first.tokens:.0f} at the start"
        if self.copies > first.copies + MAX_COPIES:
            return f"{self.copies:.0%} of the held-out plans copy their requests into a prompt"
        return None


def plan_check(samples: Sequence[PlanSample], tokens: Sequence[int], most_copied: float) -> PlanCheck:
    """The check of these held-out answers; raises TrainingError if too few could be judged."""
    counted = [sample for sample in samples if sample.overall is not None]
    # A mean of the few that an outage leaves would stop the training for good.
    if len(counted) < MIN_JUDGED * len(samples):
        fault = next(sample.fault for sample in samples if sample.overall is None)
        raise TrainingError(
            f"Only {len(counted)} of {len(samples)} held-out plans could be judged: {fault}",
            "Mend that and run the same command.",
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

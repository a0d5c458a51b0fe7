"""Calls a judge several times per image and uses the median; all of its numbers are kept.

A language model as judge varies by a point or two. The median of three calls varies far less, and their
spread shows which rows not to trust. A deterministic scorer is called once.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from ....backend.pictures import Picture
from ....backend.scorers import Scorer
from ....backend.scorers.protocol import ScoresRepeatedly
from ....backend.types import Score

MATCH_SIZE = "match size"
"""Part of the identity of a scorer that is shown images at the size of their source."""


@dataclass(frozen=True)
class RepeatedScorer:
    """Calls `scorer` `repeats` times and uses the median.

    With `match_size` the new image is first scaled to the size of the one before, as in the published scorer.
    """

    scorer: Scorer
    repeats: int = 1
    match_size: bool = False

    @property
    def identity(self) -> str:
        """Identity of the scorer with the number of repeats and the scaling."""
        rules = [f"repeats={self.repeats}"] if self._several else []
        rules += [MATCH_SIZE] if self.match_size else []
        return "|".join([self.scorer.identity, *rules])

    @property
    def _several(self) -> bool:
        return self.repeats > 1 and isinstance(self.scorer, ScoresRepeatedly)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Return the median score; raises as the scorer."""
        return self.score_in_full(before, after, instruction)[0]

    def score_in_full(
        self, before: Picture | None, after: Picture, instruction: str
    ) -> tuple[Score, dict[str, Any] | None]:
        """Return the median score, and the numbers and their spread (largest minus smallest overall score).

        The second is None for a scorer without numbers. Raises as the scorer.
        """
        if self.match_size and before is not None:
            after = after.scaled_to(before.size)
        if not isinstance(self.scorer, ScoresRepeatedly):
            return self.scorer.score(before, after, instruction), None
        said = [self.scorer.numbers(before, after, instruction, n) for n in range(self.repeats)]
        scores = [Score(semantics=min(one[:2]), quality=min(one[2:])) for one in said]
        overall = [one.overall for one in scores]
        score = Score(
            semantics=median(one.semantics for one in scores), quality=median(one.quality for one in scores)
        )
        spread = round(max(overall) - min(overall), 4)
        return score, {"numbers": [list(one) for one in said], "spread": spread}


def score_in_full(
    scorer: Scorer, before: Picture | None, after: Picture, instruction: str
) -> tuple[Score, dict[str, Any] | None]:
    """Return a scorer's score, with numbers if it is a RepeatedScorer; raises as the scorer."""
    if isinstance(scorer, RepeatedScorer):
        return scorer.score_in_full(before, after, instruction)
    return scorer.score(before, after, instruction), None

"""A judge that is asked several times about every image: the median counts, and everything it said is kept.

Decision: a judge of a language model is unsure by a point or two; the median of three is far less so, and how
far the three lie apart says which rows not to trust. A scorer that answers exactly is asked once.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol, runtime_checkable

from ....backend.pictures import Picture
from ....backend.scorers import Scorer
from ....backend.types import Score


@runtime_checkable
class AnswersInNumbers(Protocol):
    """A scorer that shows the four numbers behind its score, and can be asked again for others."""

    def numbers(
        self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0
    ) -> tuple[float, float, float, float]: ...


@dataclass(frozen=True)
class RepeatedScorer:
    """Asks `scorer` so many times; with `match_size` the new image is first scaled to the size of the one
    before, as the published scorer does. `keep` of a score is what a row's `raw_scores` holds."""

    scorer: Scorer
    repeats: int = 1
    match_size: bool = False

    @property
    def identity(self) -> str:
        rules = [f"repeats={self.repeats}"] if self._several else []
        rules += ["match size"] if self.match_size else []
        return "|".join([self.scorer.identity, *rules])

    @property
    def _several(self) -> bool:
        return self.repeats > 1 and isinstance(self.scorer, AnswersInNumbers)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """The median; raises as the scorer does."""
        return self.score_in_full(before, after, instruction)[0]

    def score_in_full(
        self, before: Picture | None, after: Picture, instruction: str
    ) -> tuple[Score, dict[str, Any] | None]:
        """The median, and the numbers and their spread (largest less smallest overall score); None for a
        scorer that shows no numbers. Raises as the scorer does."""
        if self.match_size and before is not None:
            after = after.scaled_to(before.size)
        if not isinstance(self.scorer, AnswersInNumbers):
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
    """The score of any scorer, with its numbers where it is a RepeatedScorer; raises as it does."""
    if isinstance(scorer, RepeatedScorer):
        return scorer.score_in_full(before, after, instruction)
    return scorer.score(before, after, instruction), None

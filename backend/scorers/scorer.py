"""The base class of scorers: judges that return numbers, for rewards and choosing the best attempt.

A scorer always scores against the step's original prompt, never the refined one (see
`docs/reference/file-formats.md`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..errors import ScorerError
from ..pictures import Picture
from ..types import Score

Numbers = tuple[float, float, float, float]
"""Two values of semantics and two of quality, 0..10 each."""


class Scorer(ABC):
    """Scores an edited image. A subclass that samples its replies sets `repeats` and has `numbers`."""

    repeats: bool = False
    """Whether several samples can be taken, so that they can be averaged."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Identity of the model and of every setting that affects its scores."""

    @abstractmethod
    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Score an image.

        Args:
            before: Source image. None if the image was generated from text alone.
            after: Image to score.
            instruction: Original prompt of the step.

        Returns:
            Semantics and quality, 0..10 each.

        Raises:
            ScorerError: The image cannot be scored.
        """

    def numbers(self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0) -> Numbers:
        """Return the values of a score; `repeat` selects the sample. The rest is that of `score`."""
        raise ScorerError("This scorer has no single values.", "Use one that samples, such as judge:CHAT.")


class AdoptedScorer(Scorer):
    """A scorer without this base class, such as one of a plug-in for release 0.3.0."""

    def __init__(self, scorer: Any) -> None:
        self._scorer = scorer
        self.repeats = hasattr(scorer, "numbers")

    @property
    def identity(self) -> str:
        """Identity of the adopted scorer."""
        return self._scorer.identity

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Return the adopted scorer's score."""
        return self._scorer.score(before, after, instruction)

    def numbers(self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0) -> Numbers:
        """Return the adopted scorer's values."""
        return self._scorer.numbers(before, after, instruction, repeat)


def adopted_scorer(scorer: Scorer) -> Scorer:
    """Return a scorer with all members of Scorer."""
    return scorer if isinstance(scorer, Scorer) else AdoptedScorer(scorer)

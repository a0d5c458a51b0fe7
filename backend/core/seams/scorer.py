"""The base class of scorers: judges that return numbers, for rewards and choosing the best attempt.

A scorer always scores against the step's original prompt, never the refined one (see
`docs/reference/file-formats.md`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

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

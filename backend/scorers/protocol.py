"""The protocol of scorers: judges that return numbers, for rewards, evaluation and choosing the best attempt.

A scorer always scores against the step's original prompt, never the refined one (see
`docs/reference/file-formats.md`).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..pictures import Picture
from ..types import Score


@runtime_checkable
class Scorer(Protocol):
    """Scores an edited image."""

    @property
    def identity(self) -> str:
        """Identity of the model and of every setting that affects its scores."""
        ...

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
        ...


@runtime_checkable
class ScoresRepeatedly(Protocol):
    """A scorer that samples its replies, so that several of them can be averaged."""

    def numbers(
        self, before: Picture | None, after: Picture, instruction: str, repeat: int = 0
    ) -> tuple[float, float, float, float]:
        """Return two values of semantics and two of quality, 0..10 each; `repeat` selects the sample.

        Arguments and errors are those of `Scorer.score`.
        """
        ...

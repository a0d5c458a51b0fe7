"""The seam to a judge that gives numbers: used for rewards, evaluation and choosing the best of several
attempts.

Decision: a scorer always scores against the step's original prompt, never the refined one (FORMATS: roles).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..pictures import Picture
from ..types import Score


@runtime_checkable
class Scorer(Protocol):
    """Scores an edit. `before` None means the image was drawn from text alone."""

    @property
    def identity(self) -> str:
        """Name of the model and of every setting that shapes its scores."""
        ...

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Semantics and quality, 0..10 each. Raises ScorerError."""
        ...

"""The protocol of scorers: judges that return numbers, for rewards, evaluation and choosing the best attempt.

A scorer always scores against the step's original prompt, never the refined one (see
`docs/reference/file-formats.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ..errors import ScorerError
from ..pictures import Picture
from ..types import Score

UNMEASURED = 10.0
"""Score of a part that a scorer does not measure: constant, so that it never decides."""


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


class Parts(NamedTuple):
    """The two parts of a score, 0..10 each; None if a scorer does not measure the part of this image."""

    semantics: float | None
    quality: float | None

    @property
    def score(self) -> Score:
        """The score, with `UNMEASURED` for a part that is not measured."""
        semantics, quality = (UNMEASURED if part is None else part for part in self)
        return Score(semantics=semantics, quality=quality)


@runtime_checkable
class MeasuresParts(Protocol):
    """A scorer that may measure only one part of a score, so that a combination leaves out the other one."""

    def parts(self, before: Picture | None, after: Picture, instruction: str) -> Parts:
        """Return what it measures of an image. Arguments and errors are those of `Scorer.score`."""
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


@runtime_checkable
class ScoresTogether(Protocol):
    """A scorer that compares the images of one step with each other."""

    def score_together(
        self, before: Picture | None, afters: Sequence[Picture], instruction: str
    ) -> list[Score]:
        """Score each image relative to the others. Arguments and errors are those of `Scorer.score`."""
        ...


@runtime_checkable
class Leaves(Protocol):
    """A scorer that can free its device until it is called again."""

    def offload(self) -> None:
        """Free the device."""
        ...


def free_device(scorer: object) -> None:
    """Free the devices of a scorer and of its chat model, if they can leave them."""
    for leaving in (scorer, getattr(scorer, "chat", None)):
        if isinstance(leaving, Leaves):
            leaving.offload()


def parts_of(scorer: Scorer, before: Picture | None, after: Picture, instruction: str) -> Parts:
    """Return what any scorer measures of an image; raises as the scorer."""
    if isinstance(scorer, MeasuresParts):
        return scorer.parts(before, after, instruction)
    score = scorer.score(before, after, instruction)
    return Parts(score.semantics, score.quality)


def score_all(
    scorer: Scorer, before: Picture | None, afters: Sequence[Picture], instruction: str
) -> list[Score]:
    """Score images of one step, together if the scorer compares images; raises as the scorer."""
    if not isinstance(scorer, ScoresTogether):
        return [scorer.score(before, after, instruction) for after in afters]
    scores = scorer.score_together(before, afters, instruction)
    if len(scores) != len(afters):
        raise ScorerError(
            f"The scorer returned {len(scores)} scores for {len(afters)} images.",
            "It must return one for each image: correct the scorer or its plug-in.",
        )
    return scores

"""How far each step's image has drifted, over a finished or stopped story: what exports and the storyboard
show.

Decision: measured when somebody asks and never while drawing, since it costs a few milliseconds an image and
decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..drift import Drift, drift
from ..loop.policy import first_image
from ..types import Trajectory, Value

if TYPE_CHECKING:
    pass


class StepDrift(Value):
    """Drift of a step's kept image from the image that it edits and from the story's first; None where it has
    none."""

    from_source: Drift | None = None
    from_anchor: Drift | None = None

    @property
    def sentence(self) -> str:
        """What a report says of it, empty for a step that has nothing to be compared with."""
        if self.from_source is None or self.from_anchor is None:
            known = self.from_source or self.from_anchor
            return known.sentence if known else ""
        if self.from_source == self.from_anchor:
            return self.from_source.sentence
        return f"{self.from_source.sentence}; from the first image {self.from_anchor.sentence}"


def drift_of_steps(trajectory: Trajectory) -> dict[int, StepDrift]:
    """By step number: the drift of every kept image from what it edits and from the story's first image."""
    drifts = {}
    for number, result in enumerate(trajectory.results):
        if result.chosen is None or result.image is None:
            continue
        source = result.attempts[result.chosen].source
        anchor = first_image(trajectory.request.images, trajectory.results[:number])
        drifts[result.step.number] = StepDrift(
            from_source=None if source is None else drift(source, result.image),
            from_anchor=None if anchor is None else drift(anchor, result.image),
        )
    return drifts

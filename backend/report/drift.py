"""Drift of each step's image, for a finished or stopped story; shown in exports and the storyboard.

It is measured on demand and not during the run, since it takes some milliseconds per image and decides
nothing.
"""

from __future__ import annotations

from ..drift.measure import Drift, drift
from ..loop.policy import first_image
from ..types import Trajectory, Value


class StepDrift(Value):
    """Drift of a step's kept image from its source image and the story's first image; `None` without one."""

    from_source: Drift | None = None
    from_anchor: Drift | None = None

    @property
    def sentence(self) -> str:
        """The drift as a sentence for reports; empty if there is nothing to compare with."""
        if self.from_source is None or self.from_anchor is None:
            known = self.from_source or self.from_anchor
            return known.sentence if known else ""
        if self.from_source == self.from_anchor:
            return self.from_source.sentence
        return f"{self.from_source.sentence}; from the first image {self.from_anchor.sentence}"


def drift_of_steps(trajectory: Trajectory) -> dict[int, StepDrift]:
    """Return the drift of every kept image, by step number."""
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

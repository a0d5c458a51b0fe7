"""Selects trajectories that may be taught as they are: those in which every step was accepted.

A step is accepted by a critic or picked by a person. A step without a verdict does not count: whether its
image is right is unknown, and a model would learn from it as if it were.
"""

from __future__ import annotations

from ....backend.types import StopReason, Trajectory

ACCEPTED = frozenset({StopReason.accepted, StopReason.picked, StopReason.text_only})


def not_accepted(trajectory: Trajectory) -> str:
    """Return why a trajectory must not be taught as it is, or an empty text."""
    reasons = {one.stop_reason for one in trajectory.results}
    if len(trajectory.results) < len(trajectory.plan.steps) or reasons - ACCEPTED - {StopReason.unjudged}:
        return "not every step was accepted"
    return "a step was not judged" if StopReason.unjudged in reasons else ""

"""Which trajectories may be taught as they stand: those in which every step was accepted.

Decision: accepted by a critic, or picked by a person. A step that nobody judged was not accepted: whether its
picture shows what was asked is not known, and a planner or a model that draws would learn from it as if it
were.
"""

from __future__ import annotations

from ....backend.types import StopReason, Trajectory

ACCEPTED = frozenset({StopReason.accepted, StopReason.picked, StopReason.text_only})


def not_accepted(trajectory: Trajectory) -> str:
    """Why a trajectory may not be taught as it stands; empty if it may."""
    reasons = {one.stop_reason for one in trajectory.results}
    if len(trajectory.results) < len(trajectory.plan.steps) or reasons - ACCEPTED - {StopReason.unjudged}:
        return "not every step was accepted"
    return "a step was not judged" if StopReason.unjudged in reasons else ""

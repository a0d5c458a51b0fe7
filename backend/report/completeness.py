"""What is missing in a run: steps that were not reached, failed images, failed judgements.

A run always ends with a trajectory, even after errors, so that no finished work is lost. Code that caches,
shows or exports a run checks here whether it is complete.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from ..loop.policy import waiting_of
from ..types import Attempt, StepResult, StopReason, Trajectory

GOOD = (
    StopReason.accepted,
    StopReason.picked,
    StopReason.skipped,
    StopReason.unjudged,
    StopReason.text_only,
)
"""Stop reasons of a step whose result was not rejected."""


class Lack(str, Enum):
    """Why a step is not complete."""

    not_reached = "not reached"
    not_drawn = "not drawn"
    out_of_time = "out of time"
    not_judged = "not judged"
    attempts_failed = "attempts failed"
    cancelled = "cancelled"


def lacks(trajectory: Trajectory, numbers: Collection[int] | None = None) -> dict[Lack, list[int]]:
    """Return the numbers of the incomplete steps, grouped by what is missing.

    Args:
        trajectory: The run.
        numbers: Steps to check. Default: all steps of the plan.

    Returns:
        Step numbers in order, grouped in the order of `Lack`; empty if the run is complete.
    """
    results = {result.step.number: result for result in trajectory.results}
    planned = {step.number for step in trajectory.plan.steps} | set(results)
    wanted = sorted(planned if numbers is None else planned & set(numbers))
    found = {number: _lack(results.get(number)) for number in wanted}
    grouped = {lack: [number for number, one in found.items() if one is lack] for lack in Lack}
    return {lack: steps for lack, steps in grouped.items() if steps}


def is_complete(trajectory: Trajectory, numbers: Collection[int] | None = None) -> bool:
    """Return whether every step was run, without a failed attempt that its result depends on."""
    return not lacks(trajectory, numbers)


def only_waits(trajectory: Trajectory) -> bool:
    """Return whether a paused run waits for the user's decision, and no step before it is incomplete."""
    return waiting_of(trajectory) is not None and lacks(trajectory).keys() <= {Lack.not_reached}


def all_accepted(trajectory: Trajectory) -> bool:
    """Return whether the run is complete and no step was rejected."""
    return is_complete(trajectory) and all(result.stop_reason in GOOD for result in trajectory.results)


def _lack(result: StepResult | None) -> Lack | None:
    if result is None:
        return Lack.not_reached
    ends = {
        StopReason.error: Lack.not_drawn,
        StopReason.budget: Lack.out_of_time,
        StopReason.cancelled: Lack.cancelled,
    }
    if result.stop_reason in ends:
        return ends[result.stop_reason]
    failed = [attempt for attempt in _deciding(result) if attempt.error is not None]
    if not failed:
        return None
    return Lack.not_judged if any(attempt.image for attempt in failed) else Lack.attempts_failed


def _deciding(result: StepResult) -> list[Attempt]:
    """Return the attempts that the result of a step depends on.

    If the user requested attempts, this is the newest of them.
    """
    if result.stop_reason in (StopReason.picked, StopReason.approved_by_time, StopReason.text_only):
        return []
    by_user = [one.redraw.number for one in result.attempts if one.redraw and one.redraw.by == "user"]
    if by_user:
        return [one for one in result.attempts if one.redraw and one.redraw.number == max(by_user)]
    return [] if result.stop_reason is StopReason.accepted else list(result.attempts)

"""The live view of a run that has ended, made from its trajectory."""

from __future__ import annotations

from collections.abc import Sequence

from ...journal.waiting import Waiting
from ...loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Finished,
    PlanReady,
    StepFinished,
    StoryChecked,
)
from ...types import Attempt, Trajectory
from .live_run import LiveRun


def replayed(run: str, trajectory: Trajectory, waiting: Waiting | None = None) -> LiveRun:
    """Return the live view of a run that has ended, and waits for the user if it paused."""
    judged = any(attempt.verdict for result in trajectory.results for attempt in result.attempts)
    live = LiveRun(run, trajectory.plan, trajectory.settings, judged)
    live.follow(PlanReady(trajectory.plan))
    for result in trajectory.results:
        of = batches_of(result.attempts)
        for number, attempt in enumerate(result.attempts):
            begun = AttemptStarted(result.step, number, attempt.prompt, attempt.seed, attempt.redraw)
            live.follow(begun)
            live.follow(AttemptDrawn(result.step, number, attempt, of=of[number]))
            if attempt.verdict or (attempt.error and attempt.image):
                live.follow(AttemptJudged(result.step, number, attempt))
        live.follow(StepFinished(result))
    if trajectory.checks:
        live.follow(StoryChecked(trajectory.checks[-1]))
    live.follow(Finished(trajectory, waiting))
    return live


def batches_of(attempts: Sequence[Attempt]) -> list[int]:
    """Return for every attempt the number of images generated together with it."""
    sizes: list[int] = []
    for attempt in attempts:
        if attempt.place == 0 or not sizes:
            sizes.append(0)
        sizes[-1] += 1
    return [size for size in sizes for _ in range(size)]

"""Typed events of a run, in the order in which they happen.

The progress of the command line, the live view of the nodes, the journal and the tests all read this one
stream. So everything that is shown is recorded, and everything that is recorded can be shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.types import Attempt, Plan, Redraw, Step, StepResult, StoryCheck, Trajectory, UnusedSetting
from ..journal.waiting import Waiting


@dataclass(frozen=True)
class PlanReady:
    """The plan is ready. `reused`: it came from the journal."""

    plan: Plan
    reused: bool = False


@dataclass(frozen=True)
class AttemptStarted:
    """An attempt of a step starts.

    `attempt` counts from 0. `redraw` is set if the user requested the attempt.
    """

    step: Step
    attempt: int
    prompt: str
    seed: int
    redraw: Redraw | None = None


@dataclass(frozen=True)
class AttemptDrawn:
    """The image (or the error) of an attempt is available; it is not judged yet.

    `reused`: the image came from the cache. `of`: number of images that the generator call returned; each of
    them is an attempt with its own events.
    """

    step: Step
    attempt: int
    record: Attempt
    reused: bool = False
    of: int = 1


@dataclass(frozen=True)
class AttemptJudged:
    """An attempt is judged; `record` has the image and the verdict.

    `reused`: the verdict came from the cache.
    """

    step: Step
    attempt: int
    record: Attempt
    reused: bool = False


@dataclass(frozen=True)
class AttemptScored:
    """An attempt was scored, because the choice between several depends on it.

    `record` has the score. `error` is why there is none; the critic's verdicts then decide. `reused`: the
    score came from the cache.
    """

    step: Step
    attempt: int
    record: Attempt
    reused: bool = False
    error: str = ""


@dataclass(frozen=True)
class SettingUnused:
    """A setting of the run has no effect. Reported once per run."""

    setting: UnusedSetting


@dataclass(frozen=True)
class StepRewritten:
    """A step whose attempts are used up is tried again with a new prompt, and generated from text."""

    step: Step


@dataclass(frozen=True)
class StepFinished:
    """A step has ended, for the reason in `result.stop_reason`."""

    result: StepResult


@dataclass(frozen=True)
class StoryChecked:
    """All images of the story were checked together. If a step was reopened, its events follow again.

    `reused`: the result came from the cache.
    """

    check: StoryCheck
    reused: bool = False


@dataclass(frozen=True)
class Finished:
    """The run has ended. This is the last event of every stream.

    `waiting` is set if it paused: it waits for the user's decision, and run again it continues.
    """

    trajectory: Trajectory
    waiting: Waiting | None = None


Event = (
    PlanReady
    | AttemptStarted
    | AttemptDrawn
    | AttemptJudged
    | AttemptScored
    | SettingUnused
    | StepRewritten
    | StepFinished
    | StoryChecked
    | Finished
)

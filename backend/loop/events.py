"""What the loop tells the world while it runs: one typed event after another.

Decision: the command line's progress, the nodes' live view, the journal and the tests all consume this one
stream, so that nothing can be shown that was not recorded, and nothing is recorded that cannot be shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Attempt, Plan, Redraw, Step, StepResult, Trajectory, UnusedSetting


@dataclass(frozen=True)
class PlanReady:
    """The plan is there; `reused` if it came from the journal."""

    plan: Plan
    reused: bool = False


@dataclass(frozen=True)
class AttemptStarted:
    """Attempt number `attempt` (0-based) of a step begins with this prompt and seed; `redraw` if a person
    asked for it."""

    step: Step
    attempt: int
    prompt: str
    seed: int
    redraw: Redraw | None = None


@dataclass(frozen=True)
class AttemptDrawn:
    """The image (or the fault) of an attempt is there; not judged yet. `reused`: nothing was drawn for it.

    `of` is the number of images that its draw gave; each of them is an attempt with events of its own.
    """

    step: Step
    attempt: int
    record: Attempt
    reused: bool = False
    of: int = 1


@dataclass(frozen=True)
class AttemptJudged:
    """The verdict of an attempt is there; `record` holds both. `reused`: the critic was not asked again."""

    step: Step
    attempt: int
    record: Attempt
    reused: bool = False


@dataclass(frozen=True)
class SettingUnused:
    """A setting of the run has no effect; reported once."""

    setting: UnusedSetting


@dataclass(frozen=True)
class StepFinished:
    """A step is done, for the reason in `result.stop_reason`."""

    result: StepResult


@dataclass(frozen=True)
class Finished:
    """The run is done; the last event of every stream."""

    trajectory: Trajectory


Event = PlanReady | AttemptStarted | AttemptDrawn | AttemptJudged | SettingUnused | StepFinished | Finished

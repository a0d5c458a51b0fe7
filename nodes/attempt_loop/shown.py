"""The tries of a pair as the browser follows them: the live view of the Critic Loop, over many nodes of the
host.

Decision: every try plays the records anew (backend/loop/external.py), so its events begin with those that
were shown before. What is the same again is not sent again; that the records end there (the loop takes it for
a cancel) is shown only if the user did cancel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...backend.loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    StepFinished,
)
from ...backend.loop.external import DrawNeeded, ExternalAttempts, ExternalDrawResult, first_events
from ...backend.loop.loop import CriticLike
from ...backend.types import Plan, StopReason, Trajectory
from .. import host
from ..live.live_run import LIVE_RUNS, LiveRun, LiveTarget, was_cancelled
from ..live.messages import EVENT


def target_at(node: str, workflow: str | None) -> LiveTarget:
    """The live view of the node with this display id, for the prompt that is running here."""
    return LiveTarget(
        node,
        workflow,
        lambda message: host.publish(EVENT, message.model_dump(mode="json")),
        prompt=host.running_prompt(),
    )


class ShownAttempts:
    """One execution of a trial, shown at `target` from its first try to its last."""

    def __init__(self, attempts: ExternalAttempts, judged: bool, target: LiveTarget) -> None:
        self._attempts = attempts
        self._live = LiveRun(
            attempts.folder.name, Plan(steps=attempts.external_run.steps), attempts.settings, judged, target
        )
        self._seen: list[Event] = []
        LIVE_RUNS.begin(self._live)

    def hear(self, text: str) -> None:
        """Take in a piece of the critic's text."""
        self._live.hear(text)

    def open(self) -> None:
        """Show what is to be drawn, with its first try begun."""
        for event in first_events(self._attempts.external_run):
            self._show(event)

    def follow(self, critic: CriticLike | None, given: ExternalDrawResult | None) -> Trajectory:
        """`ExternalAttempts.follow`, with what is new in it shown; raises as that does."""
        place = 0
        ends: list[Event] = []

        def take(event: Event) -> None:
            nonlocal place
            if _ends_early(event):
                ends.append(event)
                return
            if place == len(self._seen) or _content(event) != _content(self._seen[place]):
                del self._seen[place:]
                self._show(_fresh(event, given))
            place += 1

        try:
            return self._attempts.follow(critic, given, take)
        except DrawNeeded:
            raise
        except BaseException as error:
            for event in ends:
                self._live.follow(event)
            if not ends:
                self._live.fail(error)
            raise

    def _show(self, event: Event) -> None:
        self._seen.append(event)
        self._live.follow(event)


def _ends_early(event: Event) -> bool:
    if isinstance(event, StepFinished):
        return event.result.stop_reason is StopReason.cancelled
    return isinstance(event, Finished) and was_cancelled(event.trajectory)


def _fresh(event: Event, given: ExternalDrawResult | None) -> Event:
    """The event as it is where the draw was made just now: that one was not found in the records."""
    if given is None or not isinstance(event, AttemptDrawn):
        return event
    record, wanted = event.record, given.wanted
    made = (event.step.number, record.prompt, record.seed) == (wanted.step, wanted.prompt, wanted.seed)
    return replace(event, reused=False) if made else event


def _content(event: Event) -> Any:
    """What an event says, without how long it took and whether it was found in the records."""
    if isinstance(event, PlanReady):
        return "plan"
    if isinstance(event, AttemptStarted):
        return "started", event.step.number, event.attempt, event.prompt, event.seed
    if isinstance(event, AttemptDrawn):
        image = event.record.image
        return "drawn", event.step.number, event.attempt, image and image.digest
    if isinstance(event, AttemptJudged):
        return "judged", event.step.number, event.attempt, event.record.verdict, event.record.error
    if isinstance(event, StepFinished):
        return "step", event.result.step.number, event.result.chosen, event.result.stop_reason
    return "finished"

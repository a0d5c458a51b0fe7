"""Live view of Attempt Start and Attempt End, which is that of the Critic Loop over many nodes of the host.

Every attempt replays the records (backend/loop/external_run), so its events begin with those that were shown
before. Equal events are not sent again. The end of the records looks like a cancel to the loop and is shown
only if the user did cancel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...backend.feedback.live.live_run import LIVE_RUNS, LiveRun, LiveTarget, was_cancelled
from ...backend.feedback.live.messages import EVENT
from ...backend.journal.waiting import Waiting
from ...backend.loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    StepFinished,
)
from ...backend.loop.external_run.attempts import ExternalAttempts, first_events
from ...backend.loop.external_run.requests import DrawNeeded, ExternalDrawResult
from ...backend.types import Plan, StopReason
from ...backend.types.roles import CriticLike
from .. import host


def target_at(node: str, workflow: str | None) -> LiveTarget:
    """Return the live view of the node with this display id, for the running prompt."""
    return LiveTarget(
        node,
        workflow,
        lambda message: host.publish(EVENT, message.model_dump(mode="json")),
        prompt=host.running_prompt(),
    )


class ShownAttempts:
    """Shows one run at `target`, from its first attempt to its last."""

    def __init__(self, attempts: ExternalAttempts, judged: bool, target: LiveTarget) -> None:
        self._attempts = attempts
        self._live = LiveRun(
            attempts.folder.name, Plan(steps=attempts.external_run.steps), attempts.settings, judged, target
        )
        self._seen: list[Event] = []
        LIVE_RUNS.begin(self._live)

    def hear(self, text: str) -> None:
        """Receive a part of the critic's text."""
        self._live.hear(text)

    def open(self) -> None:
        """Show the plan, with its first attempt started."""
        for event in first_events(self._attempts.external_run):
            self._show(event)

    def follow(self, critic: CriticLike | None, given: ExternalDrawResult | None) -> Finished:
        """Call `ExternalAttempts.follow`, show new events, and return how the run ended.

        Raises:
            DrawNeeded: The run needs another image.
            InterleaveError: As `ExternalAttempts.follow`.
        """
        place = 0
        ends: list[Event] = []
        waiting: Waiting | None = None

        def take(event: Event) -> None:
            nonlocal place, waiting
            if isinstance(event, Finished):
                waiting = event.waiting
            if _ends_early(event):
                ends.append(event)
                return
            if place == len(self._seen) or _content(event) != _content(self._seen[place]):
                del self._seen[place:]
                self._show(_fresh(event, given))
            place += 1

        try:
            return Finished(self._attempts.follow(critic, given, take), waiting)
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
    """Return the event, marked as not reused if its image was just generated."""
    if given is None or not isinstance(event, AttemptDrawn):
        return event
    record, wanted = event.record, given.wanted
    made = (event.step.number, record.prompt, record.seed) == (wanted.step, wanted.prompt, wanted.seed)
    return replace(event, reused=False) if made else event


def _content(event: Event) -> Any:
    """Return the content of an event without its duration and whether its image was reused."""
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

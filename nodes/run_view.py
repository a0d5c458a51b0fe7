"""A run as the artist follows it on the node, and the report that stays when it is over.

Decision: every line is made from the loop's events and nothing else, so the node cannot say more than was recorded; how
each step ended (accepted, tries used up, error...) is always said.
"""

from __future__ import annotations

from ..backend.events import AttemptDrawn, AttemptJudged, AttemptStarted, Event, PlanReady, StepFinished
from ..backend.types import Attempt, Plan, StepResult, StopReason, Trajectory


class RunView:
    """Follows the events of one run: share done (0..1), a line of text, and the report so far."""

    def __init__(self, plan: Plan, tries: int) -> None:
        self._drawn = [step.number for step in plan.steps if step.prompt]
        self._tries = tries
        self.share = 0.0
        self.line = ""

    def follow(self, event: Event) -> None:
        """Take in one event of the loop."""
        if isinstance(event, PlanReady):
            self.line = f"{len(event.plan.steps)} steps"
        elif isinstance(event, AttemptStarted):
            self.share = self._position(event.step.number, event.attempt)
            self.line = f"Step {event.step.number}, try {event.attempt + 1} of {self._tries}: drawing"
        elif isinstance(event, AttemptDrawn):
            self.line = f"Step {event.step.number}, try {event.attempt + 1} of {self._tries}: {_drawn(event)}"
        elif isinstance(event, AttemptJudged):
            self.line = f"Step {event.step.number}, try {event.attempt + 1} of {self._tries}: {verdict_words(event.record)}"
        elif isinstance(event, StepFinished):
            self.share = self._position(event.result.step.number, self._tries)
            self.line = result_line(event.result)

    def within_try(self, share: float) -> float:
        """Share of the whole run when the current draw is at `share` (0..1)."""
        return self.share + share / max(1, len(self._drawn) * self._tries)

    def _position(self, number: int, tries: int) -> float:
        steps_before = sum(one < number for one in self._drawn)
        inside = tries if number in self._drawn else 0
        return (steps_before * self._tries + inside) / max(1, len(self._drawn) * self._tries)


def verdict_words(attempt: Attempt) -> str:
    """The critic's word on an attempt, with its probability and reason."""
    verdict = attempt.verdict
    if verdict is None:
        return f"not judged ({attempt.error.message})" if attempt.error else "not judged"
    if verdict.success is None:
        return "the critic could not be understood"
    word = "right" if verdict.success else "not yet right"
    sure = "" if verdict.probability is None else f" ({verdict.probability:.0%} sure of success)"
    return f"{word}{sure}"


def result_line(result: StepResult) -> str:
    """How a step ended."""
    name = result.step.name or result.step.instruction or "Step"
    tries = len(result.attempts)
    kept = (
        ""
        if result.chosen is None or result.stop_reason is StopReason.accepted
        else f", kept try {result.chosen + 1}"
    )
    count = f" after {tries} {'try' if tries == 1 else 'tries'}{kept}" if tries else ""
    return f"{result.step.number}. {name}: {result.stop_reason.value}{count}"


def report(trajectory: Trajectory) -> str:
    """Every step with how it ended, and every try with the critic's word and the prompt that it was drawn with."""
    lines: list[str] = []
    for result in trajectory.results:
        lines.append(result_line(result))
        for number, attempt in enumerate(result.attempts):
            mark = "*" if number == result.chosen else " "
            words = (
                attempt.error.message if attempt.image is None and attempt.error else verdict_words(attempt)
            )
            lines.append(f"  {mark} try {number + 1}: {words}")
            lines.append(f"      {attempt.prompt}")
    missing = len(trajectory.plan.steps) - len(trajectory.results)
    if missing:
        lines.append(f"{missing} of {len(trajectory.plan.steps)} steps were not carried out.")
    return "\n".join(lines)


def _drawn(event: AttemptDrawn) -> str:
    if event.record.image is None:
        return event.record.error.message if event.record.error else "no image"
    return "found in the journal" if event.reused else "judging"

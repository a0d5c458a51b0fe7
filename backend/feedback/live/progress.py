"""Progress of a run on its node.

Every line is created from the loop's events with the texts of the exports, so the node shows exactly what was
recorded, including how each step ended. The host sends the state of the whole graph with every move of the
bar, so each step has a limited number of moves and preview bytes.
"""

from __future__ import annotations

from ...loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    StepFinished,
    StoryChecked,
)
from ...loop.policy import max_attempts_in, max_attempts_of
from ...report.outcomes import stop_sentence, summarize
from ...report.story_checks import check_line
from ...report.text import attempt_words
from ...types import Plan, RunSettings, Step

MOVES_PER_STEP = 24
PREVIEW_BYTES_PER_STEP = 250_000


class RunView:
    """Follows the events of one run and keeps its progress (0..1) and a line of text."""

    def __init__(self, plan: Plan, settings: RunSettings, judged: bool) -> None:
        self._drawn = [step.number for step in plan.steps if step.prompt]
        self._settings = settings
        self._judged = judged
        self._draws = max_attempts_in(plan, settings) if judged else 1
        self._batch = 1
        self.share = 0.0
        self.line = ""

    def follow(self, event: Event) -> None:
        """Process one event of the loop."""
        if isinstance(event, PlanReady):
            self.line = f"{len(event.plan.steps)} steps"
        elif isinstance(event, AttemptStarted):
            self.share = self._position(event.step.number, event.attempt)
            self.line = self._attempt_line(event.step, event.attempt, "generating")
        elif isinstance(event, AttemptDrawn):
            self._batch = max(self._batch, event.of)
            if event.record.image is None:
                self.line = self._attempt_line(
                    event.step, event.attempt, attempt_words(event.record, self._settings)
                )
            else:
                self.line = self._attempt_line(
                    event.step, event.attempt, "reused" if event.reused else "judging"
                )
        elif isinstance(event, AttemptJudged):
            self.line = self._attempt_line(
                event.step, event.attempt, attempt_words(event.record, self._settings)
            )
        elif isinstance(event, StepFinished):
            self.share = self._position(event.result.step.number, self.max_attempts)
            self.line = f"Step {event.result.step.number}: {stop_sentence(event.result)}"
        elif isinstance(event, StoryChecked):
            self.line = check_line(event.check)
        elif isinstance(event, Finished):
            self.line = summarize(event.trajectory).sentence

    def check(self) -> None:
        """Note that all images of the story are being checked together."""
        self.line = "Story check: all images together"

    def stop(self) -> None:
        """Note that the run ended during an attempt."""
        self.line = f"{self.line.partition(': ')[0]}: stopped"

    @property
    def max_attempts(self) -> int:
        """Maximum number of images of a step, batches included."""
        return self._draws * self._batch

    def within_attempt(self, share: float) -> float:
        """Return the progress of the run (0..1) when the current image is at `share` (0..1)."""
        return min(1.0, self.share + share / self._all_attempts)

    @property
    def _all_attempts(self) -> int:
        return max(1, len(self._drawn) * self.max_attempts)

    def _position(self, number: int, max_attempts: int) -> float:
        steps_before = sum(one < number for one in self._drawn)
        within = min(max_attempts, self.max_attempts) if number in self._drawn else 0
        return (steps_before * self.max_attempts + within) / self._all_attempts

    def _attempt_line(self, step: Step, attempt: int, what: str) -> str:
        max_attempts = (
            max_attempts_of(step, self._settings) * self._batch if self._judged else self.max_attempts
        )
        # Redraws by the user do not count against the maximum number of attempts.
        return f"Step {step.number}, attempt {attempt + 1} of {max(max_attempts, attempt + 1)}: {what}"


class Allowance:
    """Limits how often a step's bar moves while sampling, and the bytes of its previews."""

    def __init__(self, max_attempts: int) -> None:
        self._moves = max(1, MOVES_PER_STEP // max_attempts)
        self._last = 0
        self._bytes = PREVIEW_BYTES_PER_STEP

    def new_step(self) -> None:
        """Reset the preview bytes for a new step."""
        self._bytes = PREVIEW_BYTES_PER_STEP

    def new_attempt(self) -> None:
        """Reset the moves for a new attempt."""
        self._last = 0

    def may_move(self, share: float) -> bool:
        """Return whether the bar may move to this share (0..1) of the attempt, and count it."""
        move = int(share * self._moves)
        if move <= self._last:
            return False
        self._last = move
        return True

    def may_send(self, count: int) -> bool:
        """Return whether a preview of `count` bytes may be sent, and count it."""
        if count > self._bytes:
            return False
        self._bytes -= count
        return True

"""Prints the events of a run as lines, or as JSON objects, while the run progresses.

A terminal and a pipe get the same lines, so that a log reads like the screen. Only a terminal gets colors
and the status line. Texts from users and models are printed as they are and never read as markup.
"""

from __future__ import annotations

import json
from functools import singledispatchmethod
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from ...backend.loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptScored,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    SettingUnused,
    StepFinished,
    StepRewritten,
    StoryChecked,
)
from ...backend.loop.policy import accepted
from ...backend.report.outcomes import GOOD
from ...backend.shown_text import shown_text
from ...backend.types import Enhancement
from .sentences import UNUSED, attempt_line, plan_lines, plural, score_line, step_line, warn


class Lines:
    """Prints a run as lines of text.

    Args:
        console: Where the lines go. Default: standard output.
        accept_at: Acceptance threshold of the run, for the lines about verdicts.
    """

    def __init__(self, console: Console | None = None, accept_at: float | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._accept_at = accept_at
        self._status: Any = None
        self._steps = 0
        self._numbers: list[int] = []
        self._ended: set[int] = set()
        self._attempts = 0
        self._prompt: str | None = None
        self._cached = False
        self._enhancement: Enhancement | None = None

    def say(self, text: str = "", style: str = "") -> None:
        """Print one line. It is wrapped only on a terminal."""
        self.console.print(Text(shown_text(text), style=style), soft_wrap=not self.console.is_terminal)

    def wait(self, text: str) -> None:
        """Show a status line on a terminal; an empty text removes it."""
        if not self.console.is_terminal:
            return
        if self._status is not None:
            self._status.stop()
        self._status = self.console.status(Text(shown_text(text))) if text else None
        if self._status is not None:
            self._status.start()

    def planning(self, part: str) -> None:
        """Show which part of a long plan is being written."""
        self.wait(f"Planning: {part}")

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Print what is to be said about an event.

        Raises:
            TypeError: The object is not an event of a run.
        """
        raise TypeError(f"Cannot show {type(event).__name__}: it is not an event of a run.")

    @show.register
    def _plan(self, event: PlanReady) -> None:
        self.wait("")
        self._steps = len(event.plan.steps)
        self._numbers = [step.number for step in event.plan.steps]
        origin = " (from the run folder)" if event.reused else ""
        self.say(f"Plan with {plural(self._steps, 'step')}{origin}", "bold")
        for line in plan_lines(event.plan):
            self.say(f"  {line}")

    @show.register
    def _started(self, event: AttemptStarted) -> None:
        self._ended.discard(event.step.number)
        if event.attempt == 0:
            self._heading(event.step.number, event.step.name or event.step.instruction or event.prompt)
        elif event.prompt != self._prompt:
            self.say(f"    prompt: {event.prompt}", "dim")
        self._prompt = event.prompt
        self._attempts = event.attempt + 1
        self._wait_for("generating")

    @show.register
    def _drawn(self, event: AttemptDrawn) -> None:
        self._cached = event.reused
        self._show_enhancement(event.record.enhancement)
        if event.record.image is None:
            self.wait("")
            self.say(f"    {attempt_line(event.attempt, event.record, event.reused)}", "red")
        else:
            self._wait_for("judging")

    @show.register
    def _judged(self, event: AttemptJudged) -> None:
        self.wait("")
        verdict = event.record.verdict
        judged = verdict is not None and verdict.success is not None
        style = "red" if not judged else "green" if accepted(verdict, self._accept_at) else "yellow"
        line = attempt_line(event.attempt, event.record, event.reused, self._accept_at)
        self.say(f"    {line}", style)

    @show.register
    def _scored(self, event: AttemptScored) -> None:
        self.wait("")
        self.say(f"    {score_line(event.attempt, event.record.score, event.reused, event.error)}", "dim")

    @show.register
    def _unused(self, event: SettingUnused) -> None:
        self.wait("")
        warn(UNUSED[event.setting])

    @show.register
    def _rewritten(self, event: StepRewritten) -> None:
        self.wait("")
        self.say(
            "    not accepted, no attempts left: generated from text, with a prompt for the whole image",
            "yellow",
        )

    @show.register
    def _finished_step(self, event: StepFinished) -> None:
        self.wait("")
        result = event.result
        if not result.attempts:
            self._heading(result.step.number, result.step.name or result.step.instruction or "")
        elif result.attempts[-1].verdict is None and result.attempts[-1].error is None:
            self.say(f"    {attempt_line(len(result.attempts) - 1, result.attempts[-1], self._cached)}")
        if result.step.auxiliary_text:
            self.say(f"    {result.step.auxiliary_text}", "italic")
        self.say(f"    {step_line(result)}", "green" if result.stop_reason in GOOD else "yellow")
        self._ended.add(result.step.number)

    @show.register
    def _checked(self, event: StoryChecked) -> None:
        self.wait("")
        if event.check.warning:
            warn(f"The story was not checked. {event.check.warning}")
            return
        cached = " (cached)" if event.reused else ""
        found = event.check.findings
        self.say(f"Story check: {plural(len(found), 'finding') if found else 'no findings'}{cached}", "bold")
        for one in found:
            self.say(f"    step {one.step}, {one.kind}: {one.problem}", "yellow")
        if event.check.reopened is not None:
            self.say(f"    step {event.check.reopened} is generated again")
            self._ended = {number for number in self._numbers if number < event.check.reopened}

    @show.register
    def _finished(self, event: Finished) -> None:
        self.wait("")

    def _show_enhancement(self, enhancement: Enhancement | None) -> None:
        """Print an enhanced prompt once, or why the enhancer's reply was not used."""
        if enhancement is None or enhancement == self._enhancement:
            return
        self._enhancement = enhancement
        self.wait("")
        if enhancement.warning:
            warn(enhancement.warning)
        else:
            self.say(f"    enhanced prompt: {enhancement.prompt}", "dim")

    def _wait_for(self, activity: str) -> None:
        self.wait(f"Step {len(self._ended) + 1} of {self._steps}, attempt {self._attempts}: {activity}")

    def _heading(self, number: int, text: str) -> None:
        place = len(self._ended) + 1
        step = f"{place}" if number == place else f"{number} ({place})"
        self.say(f"Step {step} of {self._steps}  {text}".rstrip(), "bold")


class JsonLines:
    """Prints a run as one JSON object per line; images are named by their digests."""

    def say(self, text: str = "", style: str = "") -> None:
        """Print nothing: the output consists of JSON objects only."""

    def wait(self, text: str) -> None:
        """Print nothing."""

    def planning(self, part: str) -> None:
        """Print which part of a long plan is being written, since that takes minutes."""
        self.object("planning", part=part)

    def show(self, event: Event) -> None:
        """Print an event."""
        kind = type(event)
        fields = TypeAdapter(kind).dump_python(event, mode="json")
        if isinstance(event, Finished) and event.waiting is None:
            fields.pop("waiting")
        self.object(_snake(kind.__name__), **fields)

    def result(self, **fields: object) -> None:
        """Print the result of the command, the last line."""
        self.object("result", **fields)

    def object(self, event: str, **fields: object) -> None:
        """Print one object with these fields."""
        print(json.dumps({"event": event} | fields), flush=True)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

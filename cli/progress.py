"""What a person or a program sees while a run goes on: the loop's events as lines, with a spinner on a
terminal.

Decision: a terminal and a pipe get the same lines, so that a log reads like the screen did; colours and the
line that moves are the terminal's extra. Text from users and models is printed as it is, never read as
markup.
"""

from __future__ import annotations

import json
from functools import singledispatchmethod
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from ..backend.loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    SettingUnused,
    StepFinished,
)
from ..backend.report.completeness import GOOD
from ..backend.report.outcomes import UNUSED
from ..backend.shown_text import shown_text
from ..backend.types import Attempt, Plan, StepResult, StopReason


class Lines:
    """Prints the run for a person."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._status: Any = None
        self._steps = 0
        self._done = 0
        self._tries = 0
        self._prompt: str | None = None

    def say(self, text: str = "", style: str = "") -> None:
        """One line, unwrapped where nobody looks at a terminal."""
        self.console.print(Text(shown_text(text), style=style), soft_wrap=not self.console.is_terminal)

    def wait(self, text: str) -> None:
        """Show on a terminal what is being waited for; an empty text ends it."""
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
        raise TypeError(f"{type(event).__name__} is no event of a run")

    @show.register
    def _plan(self, event: PlanReady) -> None:
        self.wait("")
        self._steps = len(event.plan.steps)
        self.say(f"Plan of {plural(self._steps, 'step')}{' (kept)' if event.reused else ''}", "bold")
        for line in plan_lines(event.plan):
            self.say(f"  {line}")

    @show.register
    def _started(self, event: AttemptStarted) -> None:
        if event.attempt == 0:
            self._heading(event.step.number, event.step.name or event.step.instruction or event.prompt)
        elif event.prompt != self._prompt:
            self.say(f"    prompt: {event.prompt}", "dim")
        self._prompt = event.prompt
        self._tries = event.attempt + 1
        self.wait(f"Step {self._done + 1} of {self._steps}, try {self._tries}: drawing")

    @show.register
    def _drawn(self, event: AttemptDrawn) -> None:
        if event.record.image is None:
            self.wait("")
            self.say(f"    {attempt_line(event.attempt, event.record, event.reused)}", "red")
        else:
            self.wait(f"Step {self._done + 1} of {self._steps}, try {self._tries}: judging")

    @show.register
    def _judged(self, event: AttemptJudged) -> None:
        self.wait("")
        success = event.record.verdict.success if event.record.verdict else None
        style = {True: "green", False: "yellow", None: "red"}[success]
        self.say(f"    {attempt_line(event.attempt, event.record, event.reused)}", style)

    @show.register
    def _unused(self, event: SettingUnused) -> None:
        self.wait("")
        self.say(f"    {UNUSED[event.setting]}", "yellow")

    @show.register
    def _finished_step(self, event: StepFinished) -> None:
        self.wait("")
        result = event.result
        if not result.attempts:
            self._heading(result.step.number, result.step.name or result.step.instruction or "")
        elif result.attempts[-1].verdict is None and result.attempts[-1].error is None:
            self.say(f"    {attempt_line(len(result.attempts) - 1, result.attempts[-1])}")
        if result.step.auxiliary_text:
            self.say(f"    {result.step.auxiliary_text}", "italic")
        self.say(f"    {step_line(result)}", "green" if result.stop_reason in GOOD else "yellow")
        self._done += 1

    @show.register
    def _finished(self, event: Finished) -> None:
        self.wait("")

    def _heading(self, number: int, text: str) -> None:
        place = self._done + 1
        step = f"{place}" if number == place else f"{number} ({place})"
        self.say(f"Step {step} of {self._steps}  {text}".rstrip(), "bold")


class JsonLines:
    """Prints one JSON object a line: the events as they happen, pictures as digests."""

    def say(self, text: str = "", style: str = "") -> None:
        """Nothing: a program reads only objects."""

    def wait(self, text: str) -> None:
        """Nothing."""

    def planning(self, part: str) -> None:
        """A line, since a long plan takes minutes."""
        print(json.dumps({"event": "planning", "part": part}), flush=True)

    def show(self, event: Event) -> None:
        kind = type(event)
        print(
            json.dumps({"event": _snake(kind.__name__)} | TypeAdapter(kind).dump_python(event, mode="json")),
            flush=True,
        )

    def result(self, **fields: object) -> None:
        """The last line: what the command came to."""
        print(json.dumps({"event": "result"} | fields), flush=True)


def plan_lines(plan: Plan) -> list[str]:
    """A line or two for every step of a plan."""
    lines: list[str] = []
    for step in plan.steps:
        title = step.name or step.instruction or ""
        lines.append(f"{step.number}. {title or step.prompt or 'text'}")
        if step.prompt and step.prompt != title and title:
            lines.append(f"   draw: {step.prompt}")
        if step.auxiliary_text:
            lines.append(f"   text: {step.auxiliary_text}")
    return lines


def attempt_line(number: int, attempt: Attempt, reused: bool = False) -> str:
    """What one attempt came to: the critic's word, its probability, seconds, or the fault."""
    if attempt.error is not None:
        word = f"{attempt.error.where} failed: {attempt.error.message}"
    elif attempt.verdict is None:
        word = "drawn"
    else:
        word = {True: "right", False: "not right", None: "critic not understood"}[attempt.verdict.success]
        if attempt.verdict.probability is not None:
            word += f", P(success) {attempt.verdict.probability:.4g}"
    return f"try {number + 1}: {word}, {'kept' if reused else f'{attempt.seconds:.1f} s'}"


def step_line(result: StepResult) -> str:
    """Why the step ended, and which picture it has."""
    if result.stop_reason is StopReason.text_only:
        return "text only"
    picture = (
        f"try {result.chosen + 1}, picture {result.image.digest[:12]}"
        if result.image and result.chosen is not None
        else "no picture"
    )
    return f"{result.stop_reason.value}: {picture}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

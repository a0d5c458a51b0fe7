"""Prints the events of a run as lines, or as JSON objects, while the run progresses.

A terminal and a pipe get the same lines, so that a log reads like the screen. Only a terminal gets colors
and the status line. Texts from users and models are printed as they are and never read as markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import singledispatchmethod
from typing import Any

import typer
from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from ..backend.core.shown_text import shown_text
from ..backend.core.types import Attempt, Enhancement, Plan, RunSettings, Score
from ..backend.story.agents.plan_lint import found_casts
from ..backend.story.journal.waiting import Waiting
from ..backend.story.loop.events import (
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
from ..backend.story.loop.policy import unanswered
from ..backend.story.outcomes import (
    ONLY_FORCED,
    UNUSED,
    AttemptOutcome,
    Tone,
    outcome,
    probability_words,
    stop_sentence,
    tone_of,
    tone_of_attempt,
)

COLORS: dict[Tone, str] = {"good": "green", "open": "yellow", "bad": "red", "quiet": ""}


def plan_lines(plan: Plan) -> list[str]:
    """Return the lines that describe the cast and the steps of a plan."""
    lines: list[str] = []
    for member in plan.cast:
        images = [plural(len(member.images), "image")] if member.images else []
        looks = ", ".join([*member.traits, *images])
        lines.append(f"{member.kind} {member.name}{f': {looks}' if looks else ''}")
    present = dict(cast_lines(plan))
    for step in plan.steps:
        title = step.name or step.instruction or ""
        lines.append(f"{step.number}. {title or step.prompt or 'text'}")
        if step.prompt and step.prompt != title and title:
            lines.append(f"   prompt: {step.prompt}")
        if step.auxiliary_text:
            lines.append(f"   text: {step.auxiliary_text}")
        if step.number in present:
            lines.append(f"   {present[step.number]}")
    return lines


def cast_lines(plan: Plan) -> Iterator[tuple[int, str]]:
    """Yield the number of each step that may show members of the cast, with a line about who is in it."""
    listed = {step.number: step.cast for step in plan.steps}
    for one in found_casts(plan):
        given = listed[one.step]
        names = ", ".join(one.names if given is None else given) or "none"
        yield one.step, f"cast{'' if one.marked or given is not None else ' by names in the prompt'}: {names}"


def attempt_line(number: int, attempt: Attempt, settings: RunSettings, reused: bool = False) -> str:
    """Return the line about one attempt: its outcome and how long it took.

    Args:
        number: Index of the attempt, from 0.
        attempt: The attempt.
        settings: Settings of the run.
        reused: Whether its image and verdict are cached.
    """
    if attempt.error is not None:
        said = f"{attempt.error.where} failed: {attempt.error.message}"
    elif attempt.verdict is None:
        said = "generated"
    else:
        said = verdict_text(attempt, settings)
    return f"attempt {number + 1}: {said}, {'cached' if reused else f'{attempt.seconds:.1f} s'}"


def score_line(number: int, score: Score | None, reused: bool, error: str) -> str:
    """Return the line about the score of one attempt, which has the index `number`."""
    if score is None:
        return f"attempt {number + 1}: not scored, so the critic's verdicts choose ({error})"
    parts = f"semantics {score.semantics:.1f}, quality {score.quality:.1f}"
    return f"attempt {number + 1}: score {score.overall:.1f} ({parts}){', cached' if reused else ''}"


def verdict_text(attempt: Attempt, settings: RunSettings) -> str:
    """Return the outcome of a judged attempt, P(success), and the items of the checklist that decided."""
    what, verdict = outcome(attempt, settings), attempt.verdict
    text = what.label
    if verdict is None:
        return text
    if failed := [item.text for item in verdict.items if item.passed is False]:
        text += f": not true: {'; '.join(failed)}"
    elif what is AttemptOutcome.not_checked:
        text += f": no answer: {'; '.join(unanswered(verdict))}"
    elif probability := probability_words(attempt, settings):
        text += f", P(success) {probability}"
    return f"{text} ({ONLY_FORCED})" if verdict.forced else text


def waiting_line(waiting: Waiting) -> str:
    """Return what a paused run waits for."""
    if waiting.step is None or waiting.reason is None:
        return "Waiting for your approval of the plan."
    attempt = f", attempt {waiting.attempt}" if waiting.attempt else ""
    return f"Waiting for your decision on step {waiting.step} ({waiting.reason.value}{attempt})."


def warn(text: str) -> None:
    """Print a warning to stderr."""
    typer.secho(f"Warning: {shown_text(text)}", err=True)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "2 steps"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Lines:
    """Prints a run as lines of text.

    Args:
        console: Where the lines go. Default: standard output.
        settings: Settings of the run, for the lines about verdicts.
    """

    def __init__(self, console: Console | None = None, settings: RunSettings | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._settings = settings or RunSettings()
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

    def show(self, event: Event) -> None:
        """Print what is to be said about an event.

        Raises:
            TypeError: The object is not an event of a run.
        """
        self.wait("")
        self._show(event)

    @singledispatchmethod
    def _show(self, event: Event) -> None:
        raise TypeError(f"Cannot show {type(event).__name__}: it is not an event of a run.")

    @_show.register
    def _plan(self, event: PlanReady) -> None:
        self._steps = len(event.plan.steps)
        self._numbers = [step.number for step in event.plan.steps]
        origin = " (from the run folder)" if event.reused else ""
        self.say(f"Plan with {plural(self._steps, 'step')}{origin}", "bold")
        for line in plan_lines(event.plan):
            self.say(f"  {line}")

    @_show.register
    def _started(self, event: AttemptStarted) -> None:
        self._ended.discard(event.step.number)
        if event.attempt == 0:
            self._heading(event.step.number, event.step.name or event.step.instruction or event.prompt)
        elif event.prompt != self._prompt:
            self.say(f"    prompt: {event.prompt}", "dim")
        self._prompt = event.prompt
        self._attempts = event.attempt + 1
        self._wait_for("generating")

    @_show.register
    def _drawn(self, event: AttemptDrawn) -> None:
        self._cached = event.reused
        self._show_enhancement(event.record.enhancement)
        if event.record.image is None:
            self._attempt(event.attempt, event.record, event.reused, "red")
        else:
            self._wait_for("judging")

    @_show.register
    def _judged(self, event: AttemptJudged) -> None:
        style = COLORS[tone_of_attempt(outcome(event.record, self._settings))]
        self._attempt(event.attempt, event.record, event.reused, style)

    @_show.register
    def _scored(self, event: AttemptScored) -> None:
        self.say(f"    {score_line(event.attempt, event.record.score, event.reused, event.error)}", "dim")

    @_show.register
    def _unused(self, event: SettingUnused) -> None:
        warn(f"{UNUSED[event.setting]}.")

    @_show.register
    def _rewritten(self, event: StepRewritten) -> None:
        self.say("    never accepted: generated from text, with a prompt for the whole image", "yellow")

    @_show.register
    def _finished_step(self, event: StepFinished) -> None:
        result = event.result
        if not result.attempts:
            self._heading(result.step.number, result.step.name or result.step.instruction or "")
        elif result.attempts[-1].verdict is None and result.attempts[-1].error is None:
            self._attempt(len(result.attempts) - 1, result.attempts[-1], self._cached)
        if result.step.auxiliary_text:
            self.say(f"    {result.step.auxiliary_text}", "italic")
        image = f": image {result.image.digest[:12]}" if result.image else ""
        self.say(f"    {stop_sentence(result)}{image}", COLORS[tone_of(result)])
        self._ended.add(result.step.number)

    @_show.register
    def _checked(self, event: StoryChecked) -> None:
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

    @_show.register
    def _finished(self, event: Finished) -> None:
        """Print nothing: the command prints the result."""

    def _attempt(self, number: int, attempt: Attempt, reused: bool, style: str = "") -> None:
        self.say(f"    {attempt_line(number, attempt, self._settings, reused)}", style)

    def _show_enhancement(self, enhancement: Enhancement | None) -> None:
        """Print an enhanced prompt once, or why the enhancer's reply was not used."""
        if enhancement is None or enhancement == self._enhancement:
            return
        self._enhancement = enhancement
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

"""A plan as a person edits it: its steps with locks, the plan that they were made from, and what is wrong
with a text.

Decision: both written forms, the outline and JSON, are read into this one value under the same rules: bounded
length, numbers that rise, and an error that names line, step and field.
"""

from __future__ import annotations

import itertools
import re

from pydantic import Field, ValidationError

from ..answers.unfit import reason_of
from ..errors import SettingsError
from ..types import MAX_STEPS, MAX_STYLE, MAX_TEXT, Step, Value

MAX_PLAN_TEXT = 1_000_000
"""Characters of a plan text that are read at most."""
DIGEST = re.compile(r"[0-9a-f]{8}")
HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


class PlanTextError(SettingsError):
    """A plan text that cannot be used; `line` is where (from 1), None where the text as a whole is at
    fault."""

    def __init__(self, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(f"Line {line}{message}" if line else message, hint)
        self.line = line


class EditedStep(Value):
    """A step as a person left it; `locked` keeps its words when the planner writes another plan."""

    step: Step
    locked: bool = False


class EditedPlan(Value):
    """Edited steps, their numbers rising. `made_from` holds the digests of the steps of the plan that was
    edited, in its order; empty where that is not known, for instance for a plan written by hand. `style` is
    a person's own; empty leaves the planner's."""

    steps: tuple[EditedStep, ...]
    made_from: tuple[str, ...] = ()
    style: str = Field(default="", max_length=MAX_STYLE)


def checked_text(text: str) -> str:
    """A plan text of usable length with plain line ends; raises PlanTextError."""
    if len(text) > MAX_PLAN_TEXT:
        raise PlanTextError(f"The plan text has {len(text)} characters; at most {MAX_PLAN_TEXT} are read.")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if half := HALF_A_CHARACTER.search(text):
        raise PlanTextError(
            ": the text holds half a character.", "Type it anew.", line_at(text, half.start())
        )
    return text


def line_at(text: str, offset: int) -> int:
    """Line number, from 1, of a position in the text."""
    return text.count("\n", 0, offset) + 1


def checked_style(style: str, line: int | None = None) -> str:
    """A style that is short enough; raises PlanTextError."""
    if len(style) > MAX_STYLE:
        raise PlanTextError(f": the style has {len(style)} characters, at most {MAX_STYLE}.", line=line or 1)
    return style


def rising(steps: list[EditedStep]) -> tuple[EditedStep, ...]:
    """The steps in their order; numbers that do not rise are given anew, one by one from the lowest on."""
    numbers = [one.step.number for one in steps]
    if all(later > earlier for earlier, later in itertools.pairwise(numbers)):
        return tuple(steps)
    return tuple(
        one.model_copy(update={"step": one.step.model_copy(update={"number": number})})
        for number, one in enumerate(steps, min(numbers))
    )


def make_step(fields: dict[str, object], line: int) -> Step:
    """A step of these fields; raises PlanTextError for the first field that cannot be so."""
    for name, value in fields.items():
        # An escape in JSON may hold half a character, which a value would replace without a word.
        if isinstance(value, str) and HALF_A_CHARACTER.search(value):
            message = f", step {fields['number']}, {name}: the text contains half a character."
            raise PlanTextError(message, "Type it again.", line)
    try:
        return Step.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = f", {named(first['loc'])}" if first["loc"] else ""
        if first["type"] == "string_too_long":
            reason = f"longer than {MAX_TEXT} characters"
        elif where:
            reason = reason_of(first)
        else:
            reason = "nothing to draw and nothing to say"
        raise PlanTextError(
            f", step {fields['number']}{where}: {reason}.",
            "" if where else "Give it a line that begins with draw: or text:.",
            line,
        ) from error


def named(place: tuple[int | str, ...]) -> str:
    """The field at the place of an error, as a person wrote it."""
    parts = [str(part)[:60] for part in place]
    return parts[1] if parts[0] == "settings" and len(parts) > 1 else parts[0]


def too_many_steps(line: int) -> PlanTextError:
    """The error for a step beyond the last one allowed."""
    return PlanTextError(f": a plan has at most {MAX_STEPS} steps.", "Delete some.", line)

"""A plan as the user edits it: steps with locks, the plan that they were made from, and errors of the text.

Both text forms, outline and JSON, are read into this one value under the same rules: limited length,
ascending numbers, and errors that name line, step and field.
"""

from __future__ import annotations

import itertools
import re

from pydantic import Field, ValidationError

from ..answers.answer_models import reason_of
from ..cast import Cast
from ..errors import SettingsError
from ..types import MAX_STEPS, MAX_STYLE, Step, Value

MAX_PLAN_TEXT = 1_000_000
"""Maximum length of a plan text, in characters."""
DIGEST = re.compile(r"[0-9a-f]{8}")
HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


class PlanTextError(SettingsError):
    """A plan text cannot be used.

    `line` is the line of the error, from 1; `None` if it concerns the whole text.
    """

    def __init__(self, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(f"Line {line}{message}" if line else message, hint)
        self.line = line


class EditedStep(Value):
    """A step as the user left it. A locked step keeps its texts when the planner writes another plan."""

    step: Step
    locked: bool = False


class EditedPlan(Value):
    """Edited steps with ascending numbers.

    `made_from` are the digests of the steps of the plan that was edited, in its order; empty if it is
    unknown, for example for a plan that the user wrote. `style` and `cast` are the user's; if empty, the
    planner's are used.
    """

    steps: tuple[EditedStep, ...]
    made_from: tuple[str, ...] = ()
    style: str = Field(default="", max_length=MAX_STYLE)
    cast: Cast = ()


def checked_text(text: str) -> str:
    """Return a plan text with plain line ends.

    Raises:
        PlanTextError: The text is too long, or contains an incomplete character.
    """
    if len(text) > MAX_PLAN_TEXT:
        raise PlanTextError(
            f"The plan text has {len(text)} characters; the maximum is {MAX_PLAN_TEXT}.", "Shorten it."
        )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if half := HALF_A_CHARACTER.search(text):
        raise PlanTextError(
            ": the text contains half a character.", "Type it again.", line_at(text, half.start())
        )
    return text


def line_at(text: str, offset: int) -> int:
    """Return the line number, from 1, of a position in the text."""
    return text.count("\n", 0, offset) + 1


def checked_style(style: str) -> str:
    """Return the style sentence.

    Raises:
        PlanTextError: It is too long.
    """
    if len(style) > MAX_STYLE:
        raise PlanTextError(
            f": the style has {len(style)} characters; the maximum is {MAX_STYLE}.", "Shorten it.", 1
        )
    return style


def rising(steps: list[EditedStep]) -> tuple[EditedStep, ...]:
    """Return the steps in their order.

    If their numbers do not ascend, they are renumbered from the lowest one.
    """
    numbers = [one.step.number for one in steps]
    if all(later > earlier for earlier, later in itertools.pairwise(numbers)):
        return tuple(steps)
    return tuple(
        one.model_copy(update={"step": one.step.model_copy(update={"number": number})})
        for number, one in enumerate(steps, min(numbers))
    )


def make_step(fields: dict[str, object], line: int) -> Step:
    """Return a step with these fields.

    Raises:
        PlanTextError: A field is not valid. The message names the first such field.
    """
    for name, value in fields.items():
        # An escape in JSON may contain half a character, which a value would replace silently.
        if isinstance(value, str) and HALF_A_CHARACTER.search(value):
            message = f", step {fields['number']}, {name}: the text contains half a character."
            raise PlanTextError(message, "Type it again.", line)
    try:
        return Step.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = f", {named(first['loc'])}" if first["loc"] else ""
        reason = reason_of(first) if where else reason_of(first).replace(f"step {fields['number']}", "it", 1)
        raise PlanTextError(
            f", step {fields['number']}{where}: {reason}.",
            "" if where else "Add a line that starts with draw: or text:.",
            line,
        ) from error


def named(place: tuple[int | str, ...]) -> str:
    """Return the field of a validation error, as the user wrote it."""
    parts = [str(part)[:60] for part in place]
    return parts[1] if parts[0] == "settings" and len(parts) > 1 else parts[0]


def too_many_steps(line: int) -> PlanTextError:
    """Return the error for a step beyond the maximum."""
    return PlanTextError(f": a plan can have at most {MAX_STEPS} steps.", "Delete some steps.", line)

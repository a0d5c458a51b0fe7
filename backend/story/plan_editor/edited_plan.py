"""A plan as the user edits it: steps with locks, the plan that they were made from, and errors of the text.

Both text forms, outline and JSON, are read into this one value under the same rules: limited length,
ascending numbers, and errors that name line, step and field. In an outline, each cast member is a block, and
the cast and the checklist of a step are lines:

    character: Mia
       trait: girl of seven
       trait: red coat
       image: mia.png

    1. The harbor at dawn
       draw: Mia looks at the bay
       cast: Mia, Lantern
       fact: the lantern is lit
       check: there are two boats

A step without a `cast` line is read as naming its members in its prompt. `cast: -` means that none is there.
The words of a `check` line decide its kind of question, unless it starts with it: `check: [identity] ...`.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...core.errors import SettingsError, first_fault
from ...core.types import MAX_STEPS, MAX_STYLE, Step, Value
from ...core.types.cast import Cast, CastMember, MemberKind
from ...core.types.checklist import ChecklistItem, QuestionKind, kind_of
from ...core.types.plan import wrong_sources

KINDS = get_args(MemberKind)
NO_MEMBER = "-"
KIND_MARK = re.compile(rf"\[({'|'.join(get_args(QuestionKind))})\]\s*(.*)$", re.IGNORECASE)
MEMBER = re.compile(rf"\s*({'|'.join(KINDS)})\s*[:：](.*)$", re.IGNORECASE)
MEMBER_FIELD = re.compile(r"\s*(trait|image)\s*[:：](.*)$", re.IGNORECASE)
STEP_FIELD = re.compile(r"\s*(cast|fact|check)\s*[:：](.*)$", re.IGNORECASE)


class _Cast(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cast: Cast = ()


def checked_cast(given: object, line: int | None = None) -> tuple[CastMember, ...]:
    """Return the members of a plan text.

    Args:
        given: List of objects with `name`, `kind`, `traits` and `images` (file names).
        line: Line of the cast, for the error.

    Raises:
        PlanTextError: A member is not valid. The message names it and the field.
    """
    try:
        return _Cast.model_validate({"cast": given}).cast
    except ValidationError as error:
        fault = first_fault(error)
        place = [str(part)[:60] for part in fault.loc[1:]]
        name = _name_of(given, fault.loc)
        where = ", ".join([*([f"member {name}"] if name else []), *place[1:2]])
        said = f"cast{f', {where}' if where else ''}: {fault.reason}."
        raise PlanTextError(f", {said}" if line else f"The {said}", "Correct it.", line) from error


def _name_of(given: object, place: tuple[int | str, ...]) -> str:
    """Return the name of the member at fault, else its number."""
    if len(place) < 2 or not isinstance(place[1], int) or not isinstance(given, (list, tuple)):
        return ""
    member = given[place[1]]
    name = member.get("name") if isinstance(member, dict) else None
    return repr(name[:60]) if isinstance(name, str) and name else str(place[1] + 1)


def member_fields(member: CastMember) -> list[tuple[str, str]]:
    """Return a member as keywords with their values, the first of which starts its block."""
    traits = [("trait", trait) for trait in member.traits]
    return [(member.kind, member.name), *traits, *(("image", image.name) for image in member.images)]


def step_fields(step: Step) -> list[tuple[str, str]]:
    """Return the lines about the cast of a step as keywords with their values."""
    cast = [] if step.cast is None else [("cast", ", ".join(step.cast) or NO_MEMBER)]
    facts = [("fact", fact) for fact in step.facts]
    return [*cast, *facts, *(("check", _check_line(item)) for item in step.checklist)]


def written_items(step: Step) -> list[Any]:
    """Return the checklist of a step as a user writes it in JSON: texts, with their kind if it is needed."""
    return [item.text if _is_plain(item) else item.model_dump() for item in step.checklist]


def _check_line(item: ChecklistItem) -> str:
    return item.text if _is_plain(item) else f"[{item.kind}] {item.text}"


def _is_plain(item: ChecklistItem) -> bool:
    """Return whether the words of an item decide its kind."""
    return kind_of(item.text) == item.kind and not KIND_MARK.match(item.text)


def add_step_field(values: dict[str, Any], keyword: str, value: str) -> bool:
    """Add a line about cast or checklist to the fields of a step. Return False if it has a cast already."""
    if keyword == "check":
        marked = KIND_MARK.match(value)
        item = {"kind": marked[1].lower(), "text": marked[2]} if marked else value
        values.setdefault("checklist", []).append(item)
        return True
    if keyword == "fact":
        values.setdefault("facts", []).append(value)
        return True
    if "cast" in values:
        return False
    names = [name.strip() for name in re.split("[,，、]", value)]
    values["cast"] = [] if value.strip() == NO_MEMBER else [name for name in names if name]
    return True


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

    Raises:
        PlanTextError: A step edits the image of a step that is not an earlier one with an image.
    """
    numbers = [one.step.number for one in steps]
    if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
        steps = [
            one.model_copy(update={"step": one.step.model_copy(update={"number": number})})
            for number, one in enumerate(steps, min(numbers))
        ]
    if wrong := next(wrong_sources([one.step for one in steps]), None):
        raise PlanTextError(f"{wrong[0].upper()}{wrong[1:]}.", "Change its source.")
    return tuple(steps)


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
        fault = first_fault(error)
        where = f", {named(fault.loc)}" if fault.loc else ""
        reason = fault.reason if where else fault.reason.replace(f"step {fields['number']}", "it", 1)
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

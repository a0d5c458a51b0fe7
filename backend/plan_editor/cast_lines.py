"""The cast and the checklists of a plan in an outline: a block for each member, and lines of a step.

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

import re
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from ..answers.answer_models import reason_of
from ..cast import Cast, CastMember, MemberKind
from ..checklist import ChecklistItem, QuestionKind, kind_of
from ..types import Step
from .edited_plan import PlanTextError

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
        first = error.errors(include_url=False)[0]
        place = [str(part)[:60] for part in first["loc"][1:]]
        name = _name_of(given, first["loc"])
        where = ", ".join([*([f"member {name}"] if name else []), *place[1:2]])
        reason = reason_of(first)
        if not line:
            raise PlanTextError(
                f"The cast{f', {where}' if where else ''}: {reason}.", "Correct it."
            ) from error
        raise PlanTextError(
            f", cast{f', {where}' if where else ''}: {reason}.", "Correct it.", line
        ) from error


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

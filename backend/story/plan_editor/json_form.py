"""An edited plan as JSON: the planners' answer format (docs/reference/file-formats.md) with `locked`.

An agent's answer is read tolerantly. A user's text is not, since the user can correct it: a field that is
unknown or of the wrong type is an error with the line of its step, and is never dropped or guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from ...core.answers.other_forms import shift_of, words_of
from ...core.errors import first_fault
from ...core.types import MAX_STEPS
from .edited_plan import (
    DIGEST,
    EditedPlan,
    EditedStep,
    PlanTextError,
    checked_cast,
    checked_style,
    checked_text,
    line_at,
    make_step,
    rising,
    too_many_steps,
    written_items,
)

STEPS, MADE_FROM, STYLE, CAST = "execution_plan", "made_from", "style", "cast"
SPACE = " \t\n\r"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    number: int | None = Field(
        default=None, ge=0, lt=10**18, validation_alias=AliasChoices("step_number", "number")
    )
    name: str | None = Field(default=None, validation_alias=AliasChoices("step_name", "name"))
    instruction: str | None = None
    prompt: str | None = None
    auxiliary_text: str | None = None
    locked: bool = False
    settings: dict[str, Any] | None = None
    cast: list[str] | None = None
    facts: list[str] = Field(default_factory=list)
    checklist: list[str | dict[str, Any]] = Field(default_factory=list)


def plan_object(plan: EditedPlan) -> dict[str, Any]:
    """Return the plan as JSON values. `read_json` reads their `json.dumps` back as an equal plan."""
    steps = [
        {
            "step_number": one.step.number,
            "step_name": one.step.name,
            "instruction": one.step.instruction,
            "prompt": one.step.prompt,
            "auxiliary_text": one.step.auxiliary_text,
            **({"settings": given} if (given := one.step.settings.as_written) else {}),
            **({"cast": list(one.step.cast)} if one.step.cast is not None else {}),
            **({"facts": list(one.step.facts)} if one.step.facts else {}),
            **({"checklist": checklist} if (checklist := written_items(one.step)) else {}),
            **({"locked": True} if one.locked else {}),
        }
        for one in plan.steps
    ]
    made_from = {MADE_FROM: list(plan.made_from)} if plan.made_from else {}
    style = {STYLE: plan.style} if plan.style else {}
    cast = {CAST: [member.as_written for member in plan.cast]} if plan.cast else {}
    return {**style, **cast, STEPS: steps, **made_from}


def write_json(plan: EditedPlan) -> str:
    """Return the plan as indented JSON text."""
    return json.dumps(plan_object(plan), ensure_ascii=False, indent=2)


def read_json(text: str) -> EditedPlan:
    """Return the plan of a JSON text: an object with `execution_plan`, or only its list.

    A missing `step_number` is one more than the number before it. Numbers that do not ascend are assigned
    again. Two habits of published plans are understood: steps that count from 0, and a text that is only in
    `instruction`.

    Raises:
        PlanTextError: The text is not a valid plan.
    """
    text = checked_text(text)
    whole = _decoded(text)
    made_from: Any = ()
    style: Any = ""
    cast: Any = ()
    if isinstance(whole, dict):
        made_from, style, cast = whole.get(MADE_FROM, ()), whole.get(STYLE, ""), whole.get(CAST, ())
        unknown = sorted(set(whole) - {STEPS, MADE_FROM, STYLE, CAST})
        if unknown:
            raise PlanTextError(
                f"The plan has an unknown field {unknown[0][:60]!r}.",
                f"Remove it. A plan has the fields {STEPS!r}, {STYLE!r} and {CAST!r}.",
            )
        whole = whole.get(STEPS)
    if not isinstance(whole, list) or not whole:
        raise PlanTextError(
            "The plan does not have any steps.",
            "Make 'steps' (in an agent's answer: 'execution_plan') a list with at least one step.",
        )
    if not isinstance(made_from, (list, tuple)) or not all(
        isinstance(one, str) and DIGEST.fullmatch(one) for one in made_from
    ):
        raise PlanTextError(
            f"{MADE_FROM!r} is damaged.", "Delete it; your text is then used as the whole plan."
        )
    if not isinstance(style, str):
        raise PlanTextError(f"{STYLE!r} is not a text.", 'Write it in quotes: "...".')
    steps: list[EditedStep] = []
    shift = shift_of(number for one in whole[:MAX_STEPS] if (number := _given_number(one)) is not None)
    for index, offset in enumerate(_offsets(text)):
        if index == MAX_STEPS:
            raise too_many_steps(line_at(text, offset))
        number = steps[-1].step.number + 1 if steps else 1
        steps.append(_step(whole[index], number, shift, line_at(text, offset)))
    return EditedPlan(
        steps=rising(steps),
        made_from=tuple(made_from[:MAX_STEPS]),
        style=checked_style(style),
        cast=checked_cast(_as_named(cast)),
    )


def _given_number(value: object) -> int | None:
    given = value.get("step_number", value.get("number")) if isinstance(value, dict) else None
    return given if isinstance(given, int) else None


def _step(value: object, number: int, shift: int, line: int) -> EditedStep:
    if not isinstance(value, dict):
        raise PlanTextError(f", step {number}: it is not an object.", "Write it as {...}.", line)
    try:
        entry = _Entry.model_validate(value)
    except ValidationError as error:
        fault = first_fault(error)
        given = value.get("step_number", value.get("number", number))
        field = f", {str(fault.loc[0])[:60]}" if fault.loc else ""
        raise PlanTextError(f", step {str(given)[:20]}{field}: {fault.reason}.", line=line) from error
    instruction, words = words_of(entry.instruction, entry.prompt, entry.auxiliary_text)
    fields = entry.model_dump(exclude={"locked", "settings"}) | {
        "settings": {name: _as_written(value) for name, value in (entry.settings or {}).items()},
        "number": number if entry.number is None else entry.number + shift,
        "name": entry.name or "",
        "instruction": instruction,
        "auxiliary_text": words,
    }
    return EditedStep(step=make_step(fields, line), locked=entry.locked)


def _as_written(setting: object) -> object:
    """Return a setting of a run's plan.json as the user writes it: an image or LoRA as its file name."""
    if isinstance(setting, dict) and {*setting} in ({"name", "picture"}, {"name", "digest"}):
        return setting["name"]
    return setting


def _as_named(cast: object) -> object:
    """Return the cast of a run's plan.json as the user writes it: loaded images as their file names."""
    if not isinstance(cast, list):
        return cast
    return [
        one | {"images": [_as_written(image) for image in one["images"]]}
        if isinstance(one, dict) and isinstance(one.get("images"), list)
        else one
        for one in cast
    ]


def _decoded(text: str) -> object:
    try:
        return _JSON.decode(text)
    except json.JSONDecodeError as error:
        raise PlanTextError(
            f", column {error.colno}: the text is not JSON ({error.msg}).", "Correct it.", error.lineno
        ) from error
    except (ValueError, RecursionError) as error:
        raise PlanTextError(
            f"The plan cannot be read as JSON ({str(error).splitlines()[0][:80]}).", "Correct the text."
        ) from error


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, item in pairs:
        if name in value:
            raise PlanTextError(f"The plan has {name[:60]!r} twice in one object.", "Keep one of them.")
        value[name] = item
    return value


_JSON = json.JSONDecoder(object_pairs_hook=_without_doubles)


def _offsets(text: str) -> Iterator[int]:
    """Yield the position of each step in a text that is known to be a plan in JSON."""
    position = _past_space(text, 0)
    while text[position] != "[":
        key, position = _JSON.raw_decode(text, _past_space(text, position + 1))
        position = _past_space(text, _past_space(text, position) + 1)
        if key == STEPS:
            break
        position = _past_space(text, _JSON.raw_decode(text, position)[1])
    while text[position] != "]":
        start = _past_space(text, position + 1)
        yield start
        position = _past_space(text, _JSON.raw_decode(text, start)[1])


def _past_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in SPACE:
        position += 1
    return position

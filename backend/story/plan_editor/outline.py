"""A plan as an outline that the user reads and edits, and the exact way back.

    style: Watercolor on rough paper

    1. The harbor at dawn [locked]
       do: Draw the empty bay.
       draw: a calm bay at dawn,
       | one red boat
       text: Very early, the boat hoisted its sail.

A step may have its own settings: `source: step 1` (previous, first, anchor, all, text), `seed: 7`,
`tries: 3`, `size: 1024x768`, `denoise: 0.5`, `negative: people`, `mask: sky.png`, `reference: fox.png`,
`lora: ink.safetensors`, `lora_strength: 0.8`. edited_plan.py describes the lines about the cast.

Written text is read back as the same steps, character for character. A value that a line cannot show as is
(spaces at its ends, control characters) is written as a backslash and a JSON string. Reading is more lenient
than writing, but only where the meaning is clear. Everything else is an error with line, step and field. The
planner's reasoning is not included.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ...core.types import MAX_STEPS, CastMember
from .edited_plan import (
    DIGEST,
    MEMBER,
    MEMBER_FIELD,
    STEP_FIELD,
    EditedPlan,
    EditedStep,
    PlanTextError,
    add_step_field,
    checked_cast,
    checked_style,
    checked_text,
    make_step,
    member_fields,
    rising,
    step_fields,
    too_many_steps,
)

KEYWORDS = {"instruction": "do", "prompt": "draw", "auxiliary_text": "text"}
SETTINGS = (
    "source",
    "seed",
    "tries",
    "size",
    "denoise",
    "negative",
    "mask",
    "reference",
    "lora",
    "lora_strength",
)
"""Names of the fields of StepSettings that an outline can contain."""
LOCK = "[locked]"
UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def write_outline(plan: EditedPlan) -> str:
    """Return the outline of a plan. `read_outline` reads it back as an equal value."""
    blocks = ["\n".join(_field_lines("style", plan.style, ""))] if plan.style else []
    blocks += [_member(member) for member in plan.cast]
    blocks += [_block(one) for one in plan.steps]
    if plan.made_from:
        blocks.append(f"made from: {' '.join(plan.made_from)}")
    return "\n\n".join(blocks)


def without_lock(name: str) -> tuple[str, bool]:
    """Return a name without the lock mark at its end, and whether it had one."""
    before = name[: -len(LOCK)]
    if name.lower().endswith(LOCK) and (not before or before[-1].isspace()):
        return before.rstrip(), True
    return name, False


def _block(edited: EditedStep) -> str:
    step = edited.step
    lines = [" ".join(filter(None, [f"{step.number}.", _name(step.name), LOCK if edited.locked else ""]))]
    for name, keyword in KEYWORDS.items():
        value = getattr(step, name)
        if value is not None:
            lines += _field_lines(keyword, value, "   ")
    for name in SETTINGS:
        value = step.settings.as_written.get(name)
        if value is not None:
            shown = f"step {value}" if name == "source" and isinstance(value, int) else str(value)
            shown = shown.removesuffix(".0") if isinstance(value, float) else shown
            lines += _field_lines(name, shown, "   ")
    lines += [f"   {keyword}: {_line(value)}" for keyword, value in step_fields(step)]
    return "\n".join(lines)


def _member(member: CastMember) -> str:
    (kind, name), *others = member_fields(member)
    return "\n".join(
        [f"{kind}: {_line(name)}", *(f"   {keyword}: {_line(value)}" for keyword, value in others)]
    )


def _field_lines(keyword: str, value: str, indent: str) -> list[str]:
    first, *others = value.split("\n") if _is_plain(value) else [_escaped(value)]
    return [
        f"{indent}{keyword}: {first}",
        *(f"{indent}| {line}" if line else f"{indent}|" for line in others),
    ]


def _name(name: str) -> str:
    return name if not name or (not without_lock(name)[1] and _line(name) == name) else _escaped(name)


def _line(value: str) -> str:
    return value if _is_plain(value) and "\n" not in value else _escaped(value)


def _is_plain(value: str) -> bool:
    first = value.partition("\n")[0]
    return (
        bool(first) and first == first.strip() and not first.startswith('\\"') and not UNSHOWN.search(value)
    )


def _escaped(value: str) -> str:
    return "\\" + json.dumps(value)


__all__ = ["read_outline", "write_outline"]

FIELD_OF = {
    "do": "instruction",
    "instruction": "instruction",
    "draw": "prompt",
    "prompt": "prompt",
    "text": "auxiliary_text",
    "caption": "auxiliary_text",
    "auxiliary_text": "auxiliary_text",
}
SOURCE_STEP = re.compile(r"(?:step\s*)?([0-9]{1,9})$", re.IGNORECASE)
HEAD = re.compile(r"\s*([0-9]{1,18})[.)](?:\s+(.*))?$")
FIELD = re.compile(rf"\s*({'|'.join((*FIELD_OF, *SETTINGS))})\s*[:：](.*)$", re.IGNORECASE)
LIKE_A_FIELD = re.compile(r"\s*([^\W\d][\w ]{0,19})[:：](?:\s|$)")
MARKED = re.compile(r"\s*\|( ?)(.*)$")
STYLE = re.compile(r"\s*style\s*[:：](.*)$", re.IGNORECASE)
MADE_FROM = re.compile(r"\s*made from\s*[:：](.*)$", re.IGNORECASE)


def read_outline(text: str) -> EditedPlan:
    """Return the plan of an outline.

    Numbers that do not ascend (because steps were moved or added) are assigned again from the lowest one. In
    a step with a single line, that line is the prompt. A line after a field that does not start another one
    continues the field; `|` before a line makes that explicit.

    Raises:
        PlanTextError: The text is not a valid plan. The message names line, step and field.
    """
    reader = _Reader()
    for number, line in enumerate(checked_text(text).split("\n"), 1):
        reader.read(number, line)
    if not reader.drafts:
        raise PlanTextError(
            "The plan does not have any steps.", "Start a step like this: 1. The harbor at dawn"
        )
    return EditedPlan(
        steps=rising([_edited(draft) for draft in reader.drafts]),
        made_from=tuple(reader.made_from or ()),
        style=checked_style("\n".join(reader.style or ())),
        cast=checked_cast(reader.cast, reader.cast_line),
    )


@dataclass
class _Draft:
    """A step while its lines are read; `values` are lists of lines by field name."""

    line: int
    number: int
    name: str
    locked: bool
    values: dict[str, list[str]] = field(default_factory=dict)
    of_cast: dict[str, Any] = field(default_factory=dict)


class _Reader:
    """Reads the lines one by one. A line that does not fit raises `PlanTextError`."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self.made_from: list[str] | None = None
        self.style: list[str] | None = None
        self.cast: list[dict[str, Any]] = []
        self.cast_line = 0
        self._open: list[str] | None = None
        self._blanks = 0

    def read(self, number: int, line: str) -> None:
        marked = MARKED.match(line)
        if marked:
            self._continue(number, marked.group(2))
        elif not line.strip():
            self._blanks += 1
        elif found := MADE_FROM.match(line):
            self._base(number, found.group(1))
        elif not self.drafts and (found := STYLE.match(line)):
            self._style(number, found.group(1).strip())
        elif not self.drafts and (found := MEMBER.match(line)):
            self._member(number, found.group(1).lower(), found.group(2).strip())
        elif self.cast and not self.drafts and (found := MEMBER_FIELD.match(line)):
            value = _shown(found.group(2).strip(), number, found.group(1).lower())
            self.cast[-1].setdefault(f"{found.group(1).lower()}s", []).append(value)
        elif self.drafts and (found := STEP_FIELD.match(line)):
            self._of_cast(number, found.group(1).lower(), found.group(2).strip())
        elif found := HEAD.match(line):
            self._head(number, int(found.group(1)), found.group(2) or "")
        elif found := FIELD.match(line):
            self._field(number, found.group(1).lower(), found.group(2))
        else:
            self._other(number, line)

    def _head(self, line: int, number: int, name: str) -> None:
        if len(self.drafts) == MAX_STEPS:
            raise too_many_steps(line)
        if number < 1:
            raise PlanTextError(": step numbers start at 1.", "Change the number.", line)
        name, locked = without_lock(name.strip())
        self.drafts.append(_Draft(line, number, _shown(name, line, f"step {number}, name"), locked))
        self._open = None

    def _style(self, line: int, value: str) -> None:
        if self.style is not None:
            raise PlanTextError(": the plan already has a style.", "Keep one of the two lines.", line)
        self._open = self.style = [_shown(value, line, "style")] if value else []
        self._blanks = 0

    def _member(self, line: int, kind: str, value: str) -> None:
        self.cast_line = self.cast_line or line
        self.cast.append({"name": _shown(value, line, kind), "kind": kind})
        self._open = None

    def _of_cast(self, line: int, keyword: str, value: str) -> None:
        draft = self._current(line)
        where = f"step {draft.number}, {keyword}"
        if not add_step_field(draft.of_cast, keyword, _shown(value, line, where)):
            raise PlanTextError(
                f", {where}: the step already has this field.", "Keep one of the two lines.", line
            )
        self._open = None

    def _field(self, line: int, keyword: str, value: str) -> None:
        draft = self._current(line)
        name = FIELD_OF.get(keyword, keyword)
        where = f"step {draft.number}, {keyword}"
        if name in draft.values:
            raise PlanTextError(
                f", {where}: the step already has this field.", "Keep one of the two lines.", line
            )
        value = value.strip()
        self._open = draft.values[name] = [_shown(value, line, where)] if value else []
        self._blanks = 0

    def _other(self, line: int, text: str) -> None:
        if self._open is not None and not self.drafts:
            self._continue(line, text.strip())
            return
        draft = self._current(line)
        if like := LIKE_A_FIELD.match(text):
            raise PlanTextError(
                f", step {draft.number}: {like.group(1)!r} is not a field. The fields are draw, text, do, "
                f"cast, fact, check, {', '.join(SETTINGS[:-1])} and {SETTINGS[-1]}.",
                "If the line continues the text above it, start it with |.",
                line,
            )
        if self._open is None:
            raise PlanTextError(
                f", step {draft.number}: {text.strip()[:40]!r} does not belong to a field.",
                "Start the line with draw:, text: or do:.",
                line,
            )
        self._continue(line, text.strip())

    def _continue(self, line: int, text: str) -> None:
        if self._open is None:
            raise PlanTextError(
                f", step {self._current(line).number}: the line does not continue a field.",
                "Start it with draw:, text: or do:.",
                line,
            )
        if self._open:
            self._open.extend([""] * self._blanks)
        self._open.append(text)
        self._blanks = 0

    def _base(self, line: int, words: str) -> None:
        digests = words.split()
        if self.made_from is not None or not all(DIGEST.fullmatch(one) for one in digests):
            raise PlanTextError(
                ": this 'made from' line is damaged or a duplicate.",
                "Delete it; your text is then used as the whole plan.",
                line,
            )
        if len(digests) > MAX_STEPS:
            raise too_many_steps(line)
        self.made_from, self._open = digests, None

    def _current(self, line: int) -> _Draft:
        if not self.drafts:
            raise PlanTextError(
                ": a plan starts with a step.",
                "Start a step like this: 1. The harbor at dawn",
                line,
            )
        return self.drafts[-1]


def _edited(draft: _Draft) -> EditedStep:
    values: dict[str, object] = {
        # With an instruction, an empty prompt is an error; without its line, the step is text-only.
        name: "\n".join(lines) if lines or (name == "prompt" and draft.values.get("instruction")) else None
        for name, lines in draft.values.items()
    }
    settings = {
        name: _setting(name, value) for name in SETTINGS if (value := values.pop(name, None)) is not None
    }
    name = draft.name
    if not values and name:
        name, values["prompt"] = "", name
    fields = {"number": draft.number, "name": name, "settings": settings, **values, **draft.of_cast}
    step = make_step(fields, draft.line)
    return EditedStep(step=step, locked=draft.locked)


def _setting(name: str, value: object) -> object:
    """Return the value of a setting's line: for a source that is a step, its number."""
    found = SOURCE_STEP.match(str(value)) if name == "source" else None
    return int(found.group(1)) if found else value


def _shown(value: str, line: int, where: str) -> str:
    """Return the value of a line: the text itself, or the JSON string after a backslash."""
    if not value.startswith('\\"'):
        return value
    try:
        found = json.loads(value[1:])
        if isinstance(found, str):
            return found
    except (ValueError, RecursionError):
        pass
    raise PlanTextError(
        f', {where}: \\" must be followed by the rest of a JSON string.', 'Write the text without \\".', line
    )

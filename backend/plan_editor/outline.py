"""A plan as an outline that a person reads and edits, and back again, exactly.

    style: Watercolour on rough paper

    1. The harbour at dawn [locked]
       do: Draw the empty bay.
       draw: a calm bay at dawn,
       | one red boat
       text: Very early, the boat hoisted its sail.

A step may have settings of its own: `source: step 1` (previous, first, anchor, all, text), `seed: 7`,
`tries: 3`, `denoise: 0.5`, `negative: people`, `mask: sky.png`, `reference: fox.png`.

Decision: what is written is read back as the same steps, character for character: a value that a line cannot
show as it is (edge spaces, control characters) is written as a backslash and a JSON string. Reading is more
lenient than writing, but only where the meaning is plain; everything else is refused with its line, step and
field. The agent's reasoning is no part of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from ..types import MAX_STEPS
from .edited_plan import (
    DIGEST,
    EditedPlan,
    EditedStep,
    PlanTextError,
    checked_style,
    checked_text,
    make_step,
    rising,
    too_many_steps,
)

KEYWORDS = {"instruction": "do", "prompt": "draw", "auxiliary_text": "text"}
FIELD_OF = {
    "do": "instruction",
    "instruction": "instruction",
    "draw": "prompt",
    "prompt": "prompt",
    "text": "auxiliary_text",
    "caption": "auxiliary_text",
    "auxiliary_text": "auxiliary_text",
}
SETTINGS = ("source", "seed", "tries", "denoise", "negative", "mask", "reference")
"""Of StepSettings, each under its own name."""
SOURCE_STEP = re.compile(r"(?:step\s*)?([0-9]{1,9})$", re.IGNORECASE)
HEAD = re.compile(r"\s*([0-9]{1,18})[.)](?:\s+(.*))?$")
FIELD = re.compile(rf"\s*({'|'.join((*FIELD_OF, *SETTINGS))})\s*[:：](.*)$", re.IGNORECASE)
LIKE_A_FIELD = re.compile(r"\s*([^\W\d][\w ]{0,19})[:：](?:\s|$)")
MARKED = re.compile(r"\s*\|( ?)(.*)$")
LOCK = "[locked]"
STYLE = re.compile(r"\s*style\s*[:：](.*)$", re.IGNORECASE)
MADE_FROM = re.compile(r"\s*made from\s*[:：](.*)$", re.IGNORECASE)
UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def write_outline(plan: EditedPlan) -> str:
    """The outline; `read_outline` gives back an equal value."""
    blocks = ["\n".join(_field_lines("style", plan.style, ""))] if plan.style else []
    blocks += [_block(one) for one in plan.steps]
    if plan.made_from:
        blocks.append(f"made from: {' '.join(plan.made_from)}")
    return "\n\n".join(blocks)


def read_outline(text: str) -> EditedPlan:
    """The plan of an outline; raises PlanTextError with line, step and field.

    Numbers that do not rise (steps were moved or added) are given anew from the lowest one on. A step of one
    line alone is drawn as that line says. Lines after a field that begin no other go on with it; `|` before
    one says so.
    """
    reader = _Reader()
    for number, line in enumerate(checked_text(text).split("\n"), 1):
        reader.read(number, line)
    if not reader.drafts:
        raise PlanTextError("The plan has no steps.", "A step begins like this: 1. The harbour at dawn")
    return EditedPlan(
        steps=rising([_edited(draft) for draft in reader.drafts]),
        made_from=tuple(reader.made_from or ()),
        style=checked_style("\n".join(reader.style or ())),
    )


@dataclass
class _Draft:
    """A step while its lines are read; `values` by field name, each a list of lines."""

    line: int
    number: int
    name: str
    locked: bool
    values: dict[str, list[str]] = field(default_factory=dict)


class _Reader:
    """Takes the lines one by one; every line either finds its place or raises PlanTextError."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self.made_from: list[str] | None = None
        self.style: list[str] | None = None
        self._open: list[str] | None = None
        self._blanks = 0

    def read(self, number: int, line: str) -> None:
        marked = MARKED.match(line)
        if marked:
            self._go_on(number, marked.group(2))
        elif not line.strip():
            self._blanks += 1
        elif found := MADE_FROM.match(line):
            self._base(number, found.group(1))
        elif not self.drafts and (found := STYLE.match(line)):
            self._style(number, found.group(1).strip())
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
            raise PlanTextError(": steps are numbered from 1 on.", line=line)
        name, locked = _without_lock(name.strip())
        self.drafts.append(_Draft(line, number, _shown(name, line, f"step {number}, name"), locked))
        self._open = None

    def _style(self, line: int, value: str) -> None:
        if self.style is not None:
            raise PlanTextError(": the plan has a style already.", "Keep one of the two lines.", line)
        self._open = self.style = [_shown(value, line, "style")] if value else []
        self._blanks = 0

    def _field(self, line: int, keyword: str, value: str) -> None:
        draft = self._current(line)
        name = FIELD_OF.get(keyword, keyword)
        where = f"step {draft.number}, {keyword}"
        if name in draft.values:
            raise PlanTextError(
                f", {where}: the step has this field already.", "Keep one of the two lines.", line
            )
        value = value.strip()
        self._open = draft.values[name] = [_shown(value, line, where)] if value else []
        self._blanks = 0

    def _other(self, line: int, text: str) -> None:
        if self._open is not None and not self.drafts:
            self._go_on(line, text.strip())
            return
        draft = self._current(line)
        if like := LIKE_A_FIELD.match(text):
            raise PlanTextError(
                f", step {draft.number}: there is no field {like.group(1)!r}; there are draw, text, do, "
                f"{', '.join(SETTINGS[:-1])} and {SETTINGS[-1]}.",
                "If the line goes on with the text above it, begin it with |.",
                line,
            )
        if self._open is None:
            raise PlanTextError(
                f", step {draft.number}: it is not said what {text.strip()[:40]!r} is.",
                "Begin the line with draw:, text: or do:.",
                line,
            )
        self._go_on(line, text.strip())

    def _go_on(self, line: int, text: str) -> None:
        if self._open is None:
            raise PlanTextError(
                f", step {self._current(line).number}: this line goes on with no field.",
                "Begin it with draw:, text: or do:.",
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
                ": this 'made from' line was damaged or doubled.",
                "Delete it; the text is then the whole plan.",
                line,
            )
        if len(digests) > MAX_STEPS:
            raise too_many_steps(line)
        self.made_from, self._open = digests, None

    def _current(self, line: int) -> _Draft:
        if not self.drafts:
            raise PlanTextError(
                ": a plan begins with a step.",
                "A step begins like this: 1. The harbour at dawn",
                line,
            )
        return self.drafts[-1]


def _edited(draft: _Draft) -> EditedStep:
    values: dict[str, object] = {
        name: "\n".join(lines) if lines else None for name, lines in draft.values.items()
    }
    settings = {
        name: _setting(name, value) for name in SETTINGS if (value := values.pop(name, None)) is not None
    }
    name = draft.name
    if not values and name:
        name, values["prompt"] = "", name
    step = make_step({"number": draft.number, "name": name, "settings": settings, **values}, draft.line)
    return EditedStep(step=step, locked=draft.locked)


def _setting(name: str, value: object) -> object:
    """A setting's line as its value: the number of the step where a source is one."""
    found = SOURCE_STEP.match(str(value)) if name == "source" else None
    return int(found.group(1)) if found else value


def _without_lock(name: str) -> tuple[str, bool]:
    """A name without the mark at its end, and whether it had one."""
    before = name[: -len(LOCK)]
    if name.lower().endswith(LOCK) and (not before or before[-1].isspace()):
        return before.rstrip(), True
    return name, False


def _shown(value: str, line: int, where: str) -> str:
    """The value that a line shows: itself, or the JSON string after a backslash."""
    if not value.startswith('\\"'):
        return value
    try:
        found = json.loads(value[1:])
        if isinstance(found, str):
            return found
    except (ValueError, RecursionError):
        pass
    raise PlanTextError(
        f', {where}: after \\" a JSON string must follow and end.', 'Write the text without \\".', line
    )


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
    return "\n".join(lines)


def _field_lines(keyword: str, value: str, indent: str) -> list[str]:
    first, *others = value.split("\n") if _is_plain(value) else [_escaped(value)]
    return [
        f"{indent}{keyword}: {first}",
        *(f"{indent}| {line}" if line else f"{indent}|" for line in others),
    ]


def _name(name: str) -> str:
    plain = not name or (_is_plain(name) and "\n" not in name and not _without_lock(name)[1])
    return name if plain else _escaped(name)


def _is_plain(value: str) -> bool:
    first = value.partition("\n")[0]
    return (
        bool(first) and first == first.strip() and not first.startswith('\\"') and not UNSHOWN.search(value)
    )


def _escaped(value: str) -> str:
    return "\\" + json.dumps(value)

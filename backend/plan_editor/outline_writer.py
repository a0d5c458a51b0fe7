"""Writes a plan as an outline, which outline.py reads back character for character."""

from __future__ import annotations

import json
import re

from ..types import CastMember
from .cast_lines import member_fields, step_fields
from .edited_plan import EditedPlan, EditedStep

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

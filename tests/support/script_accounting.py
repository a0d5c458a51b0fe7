"""What became of every line of a script: which ones are neither in its plan nor named in its notice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from interleave_thinker.backend.core.types import Plan

SYNTAX = (
    r"\]\([^)]*\)|\]\[[^\]]*\]|<[^<>]*>|\{[^{}]*\}|\\(?=\W)",
    r"^\W*(?:scene|shot|panel)?\s*\d{1,3}\b",
    r"^\W*(?:caption|x)\b(?=[\W_]|$)",
    r"^\W*(?:(?:int|ext|est|i/e)[./ ]+)+|#[\w.-]+#|\s\d+$|\(CONT'D\)|\((?:[VO]\.[OS]\.|OFF SCREEN)\)",
)
"""Marks of the formats that are not words of the story."""
NAMED = re.compile(r"\blines? ((?:\d+(?:-\d+)?(?:, | and )?)+)")


def words_of(text: str) -> list[str]:
    """Return the words of a text, regardless of case and emphasis."""
    return re.findall(r"[^\W_]+", text.casefold())


def lost_lines(lines: Iterable[str], plan: Plan) -> Iterator[str]:
    """Yield the lines with a word that is neither in the plan nor in a line that the notice names."""
    told, named = _told(plan), _named(plan)
    for number, line in enumerate(lines, 1):
        rest = line.replace("\u200b", "")
        for mark in SYNTAX:
            rest = re.sub(mark, " ", rest, flags=re.IGNORECASE)
        if number not in named and not told.issuperset(words_of(rest)):
            yield f"{number}: {line}"


def _told(plan: Plan) -> set[str]:
    steps = [text for one in plan.steps for text in (one.name, one.prompt, one.auxiliary_text) if text]
    members = [text for one in plan.cast for text in (one.name, *one.traits)]
    return set(words_of(" ".join([*steps, *members, plan.warning])))


def _named(plan: Plan) -> set[int]:
    named: set[int] = set()
    for lines in NAMED.findall(plan.warning):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", lines):
            named.update(range(int(first), int(last or first) + 1))
    return named

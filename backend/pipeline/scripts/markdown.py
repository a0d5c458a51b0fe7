"""Markdown outlines: a heading or a list item for every step.

If the outline has several headings of its deepest level, each is a step: its paragraphs are shown, quotes
(`> ...`) are the caption. Otherwise each item of its lists is a step, with quotes below it as its caption.
Headings above them, tables, code and comments are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...types import Plan
from .steps import Beat, plan_of, without

HEADING = re.compile(r"(#{1,6})\s+(\S.*)$")
ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.*)$")
QUOTE = re.compile(r"\s*>\s?(.*)$")
FENCES = ("```", "~~~")
RULE = re.compile(r"\s*(?:[-*_]\s*){3,}$|\s*\|")
PICTURE = re.compile(r"!\[[^\]]{0,300}\]\([^)]{0,300}\)")
LINK = re.compile(r"\[([^\]]{1,300})\]\([^)]{0,300}\)")
MARK = re.compile(r"(?<!\\)(?:\*{1,3}|_{1,3}|`)(?=\S)|(?<=\S)(?<!\\)(?:\*{1,3}|_{1,3}|`)")
NUMBERED = re.compile(r"(?:(?:step|panel|page|shot|scene)\s*)?\d{1,3}\s*[.:)–-]\s*", re.IGNORECASE)


def read_markdown(text: str) -> Plan:
    """Return the plan of an outline.

    Raises:
        ValueError: It has neither headings nor lists.
    """
    lines = _without_code(without(text, "<!--", "-->").split("\n"))
    levels = [len(found[1]) for line in lines if (found := HEADING.match(line))]
    deepest = max(levels, default=0)
    if levels.count(deepest) > 1:
        return plan_of(_of_headings(lines, deepest))
    return plan_of(_of_items(lines))


def _without_code(lines: list[str]) -> list[str]:
    """Return the lines outside of fenced code. A fence without its end goes to the end of the file."""
    kept: list[str] = []
    fence = ""
    for line in lines:
        if fence:
            fence = "" if line.strip() == fence else fence
        else:
            fence = next((one for one in FENCES if line.startswith(one)), "")
            if not fence:
                kept.append(line)
    return kept


def _of_headings(lines: list[str], level: int) -> Iterator[Beat]:
    name: str | None = None
    seen: list[str] = []
    said: list[str] = []
    for line in (*lines, "# end"):
        if found := HEADING.match(line):
            if name is not None:
                yield Beat(name, [_joined(seen) or name], said)
            name = (
                NUMBERED.sub("", _plain(found[2].rstrip().rstrip("#")), count=1)
                if len(found[1]) == level
                else None
            )
            seen, said = [], []
        elif quote := QUOTE.match(line):
            said.append(_plain(quote[1]))
        elif not RULE.match(line):
            item = ITEM.match(line.strip())
            seen.append(_plain(item[1] if item else line))


def _of_items(lines: list[str]) -> Iterator[Beat]:
    seen: list[str] = []
    said: list[str] = []
    for line in (*lines, "- "):
        stripped = line.strip()
        if (found := ITEM.match(stripped if stripped else line)) or line == "- ":
            if seen:
                yield Beat("", [_joined(seen)], said)
            seen, said = ([_plain(found[1])] if found else []), []
        elif quote := QUOTE.match(line):
            said.append(_plain(quote[1]))
        elif seen and line.startswith((" ", "\t")) and stripped:
            seen.append(_plain(stripped))


def _joined(lines: list[str]) -> str:
    return " ".join(line for line in lines if line.strip())


def _plain(line: str) -> str:
    return MARK.sub("", LINK.sub(r"\1", PICTURE.sub("", line))).strip()

"""Renders docstrings in the Google convention as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from .markdown import code, text

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Examples", "Note")
ENTRY = re.compile(r"(\*{0,2}[\w., ]+?)(?: \([^)]*\))?: (.*)", re.DOTALL)


def rendered(docstring: str) -> Iterator[str]:
    """The blocks of a docstring: paragraphs, and a list for each section."""
    plain: list[str] = []
    lines = docstring.strip().split("\n")
    place = 0
    while place < len(lines):
        title = lines[place].strip().removesuffix(":")
        if lines[place].strip().endswith(":") and title in SECTIONS:
            yield from _paragraphs(plain)
            plain = []
            inner, place = _indented(lines, place + 1)
            yield f"*{title}*\n\n" + "\n".join(_entries(title, inner))
            continue
        plain.append(lines[place])
        place += 1
    yield from _paragraphs(plain)


def _indented(lines: list[str], place: int) -> tuple[list[str], int]:
    inner = []
    while place < len(lines) and (not lines[place].strip() or lines[place].startswith(" ")):
        inner.append(lines[place])
        place += 1
    return textwrap.dedent("\n".join(inner)).strip("\n").split("\n"), place


def _entries(title: str, lines: list[str]) -> Iterator[str]:
    """One bullet for each entry of a section, whose continuation lines are indented."""
    entries: list[str] = []
    for line in lines:
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    if title in ("Returns", "Yields"):
        yield "- " + text(" ".join(entries))
        return
    for entry in entries:
        named = ENTRY.fullmatch(entry)
        yield f"- {code(named[1])}: {text(named[2])}" if named else f"- {text(entry)}"


def _paragraphs(lines: list[str]) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", "\n".join(lines)):
        if block.strip():
            yield text(block)

"""Pieces of Markdown that the generated pages are made of, and docstrings as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

COMMAND = "just docs-reference"
SECTION = re.compile(
    r"^(Args|Attributes|Returns|Yields|Raises|Examples?|Note):[ ]*\n((?:[ ].*\n?|\n)*)", re.M
)
ENTRY = re.compile(r"(\*{0,2}[\w., ]+?)(?: \([^)]*\))?: (.*)", re.DOTALL)


def text(value: str | None) -> str:
    """Plain text for one line of Markdown: no line breaks, no HTML, no column separators."""
    plain = " ".join((value or "").split()).replace("<", "&lt;").replace("|", "\\|")
    return re.sub(r"``(.+?)``", r"`\1`", plain)


def code(value: object) -> str:
    """A value as inline code, empty for an empty value."""
    shown = "" if value is None else " ".join(str(value).split())
    return f"`{shown}`".replace("|", "\\|") if shown else ""


def number(value: object) -> object:
    """A value for `code`, without the end of a number that says nothing."""
    return f"{value:.15g}" if isinstance(value, float) else value


def switch(value: object) -> object:
    """A value for `code`, with the words for a switch."""
    return ("on" if value else "off") if isinstance(value, bool) else value


def listed(values: Iterable[object]) -> str:
    """Values as inline code, separated by commas."""
    return ", ".join(map(code, values))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing if the rows are empty. Columns that are empty in every row are left out."""
    found = [tuple(row) for row in rows]
    used = [place for place in range(len(titles)) if any(row[place] for row in found)]
    lines = [titles, ["---"] * len(titles), *found] if found else []
    return "\n".join(f"| {' | '.join(line[place] for place in used)} |" for line in lines)


def page(title: str, source: str, *blocks: str) -> str:
    """A page that is generated from `source`: blocks with a blank line between them, without empty ones."""
    note = f"*Generated from {source} by `{COMMAND}`. Change the text there and run the command again.*"
    shown = [block.strip("\n") for block in (f"# {title}", note, *blocks)]
    return "\n\n".join(filter(None, shown)) + "\n"


def paragraphs(value: str) -> Iterator[str]:
    """The paragraphs of a text, each as one line."""
    return (text(block) for block in re.split(r"\n\s*\n", value.strip()) if block.strip())


def docstring(value: str | None) -> Iterator[str]:
    """The blocks of a docstring in the Google convention: paragraphs, and a list for each section."""
    plain, *sections = SECTION.split(value or "")
    yield from paragraphs(plain)
    for title, entries, after in zip(sections[::3], sections[1::3], sections[2::3], strict=True):
        yield f"*{title}*\n\n" + "\n".join(_entries(title, textwrap.dedent(entries)))
        yield from paragraphs(after)


def _entries(title: str, lines: str) -> Iterator[str]:
    """One bullet for each entry of a section, whose continuation lines are indented."""
    whole = title in ("Returns", "Yields")
    for entry in [lines] if whole else re.split(r"\n(?=\S)", lines.strip("\n")):
        named = None if whole else ENTRY.fullmatch(entry)
        yield f"- {code(named[1])}: {text(named[2])}" if named else f"- {text(entry)}"

"""Pieces of Markdown that the generated pages are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

COMMAND = "just docs-reference"


def note(source: str) -> str:
    """The line below a page's title: what it is generated from, and how."""
    return f"*Generated from {source} by `{COMMAND}`. Change the text there and run the command again.*"


def text(value: str) -> str:
    """Plain text for one line of Markdown: no line breaks, no HTML, no column separators."""
    plain = " ".join(value.split()).replace("<", "&lt;").replace("|", "\\|")
    return re.sub(r"``(.+?)``", r"`\1`", plain)


def code(value: str) -> str:
    """A value as inline code, empty for an empty value."""
    return f"`{' '.join(value.split())}`".replace("|", "\\|") if value.strip() else ""


def listed(values: Iterable[str]) -> str:
    """Values as inline code, separated by commas."""
    return ", ".join(code(value) for value in values)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing if the rows are empty. Columns that are empty in every row are left out."""
    found = [tuple(row) for row in rows]
    if not found:
        return ""
    used = [place for place in range(len(titles)) if any(row[place] for row in found)]
    lines = [[titles[place] for place in used], ["---"] * len(used)]
    lines += [[row[place] for place in used] for row in found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(*blocks: str) -> str:
    """A page of blocks with a blank line between them; empty blocks are left out."""
    return "\n\n".join(block.strip("\n") for block in blocks if block.strip()) + "\n"

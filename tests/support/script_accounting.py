"""What became of every line of a script: which ones are neither in its plan nor named in its notice."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from interleave_thinker.backend.core.types import Plan

SCRIPTS = Path(__file__).parents[1] / "data" / "scripts"
ENCODINGS = {
    "excel-ansi.csv": "cp1252", "excel-sep.csv": "cp1252", "paragraphs.txt": "cp1252",
    "final-draft.txt": "cp1252", "excel-unicode.txt": "utf-16", "utf16-no-bom.csv": "utf-16-be",
}  # fmt: skip
TABLES = {
    "excel-ansi.csv": (";", 0), "excel-unicode.txt": ("\t", 0), "excel-utf8.csv": (",", 0),
    "excel-sep.csv": (";", 1), "utf16-no-bom.csv": (",", 0), "libreoffice.csv": (",", 2),
    "numbers.csv": (";", 1), "google-sheets.tsv": (None, 0), "storyboarder.csv": (",", 0),
    "table.md": ("|", 2),
}  # fmt: skip
"""Separator (none: tabs without quotation marks) and place of the headings."""
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


def dropped(path: Path, plan: Plan) -> list[str]:
    """Return the lines and cells of a script that are lost: not in its plan, and not named in its notice."""
    text = path.read_bytes().decode(ENCODINGS.get(path.name, "utf-8-sig")).removeprefix("\ufeff")
    if path.name in TABLES:
        separator, head = TABLES[path.name]
        return list(lost_cells(text, separator, head, plan))
    return list(lost_lines(text.splitlines(), plan))


def lost_lines(lines: Iterable[str], plan: Plan) -> Iterator[str]:
    """Yield the lines with a word that is neither in the plan nor in a line that the notice names."""
    told, named = _told(plan), _named(plan)
    for number, line in enumerate(lines, 1):
        rest = line.replace("\u200b", "")
        for mark in SYNTAX:
            rest = re.sub(mark, " ", rest, flags=re.IGNORECASE)
        if number not in named and not told.issuperset(words_of(rest)):
            yield f"{number}: {line}"


def lost_cells(text: str, separator: str | None, head: int, plan: Plan) -> Iterator[str]:
    """Yield the cells with a word that is not in the plan, nor in a line or column that the notice names."""
    told, named = _told(plan), _named(plan)
    quoting = csv.QUOTE_MINIMAL if separator else csv.QUOTE_NONE
    reader = csv.reader(text.splitlines(True), delimiter=separator or "\t", quoting=quoting)
    headings: list[str] = []
    before = 0
    for place, row in enumerate(reader):
        number, before = before + 1, reader.line_num
        if place == head:
            headings = [one.strip() for one in row]
        elif number not in named and row and not row[0].startswith("sep="):
            columns = dict(enumerate(headings))
            for column, cell in enumerate(row):
                of_column = repr(columns.get(column) or "-")
                if of_column not in plan.warning and not told.issuperset(words_of(cell)):
                    yield f"{number}: {cell}"


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

"""Shot lists: tables of spreadsheets and storyboard programs, one row for each step.

The columns are known by their headings, in any order. The first row with a column that describes the images
is the headings, since programs write titles above it.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Sequence

from ...cast import MAX_NAME
from ...types import Plan
from .steps import Script, cast_name

COLUMNS = {
    "name": ("name", "title", "scene", "shot name"),
    "number": ("shot", "no", "number", "nr", "#", "shot number", "shot #", "panel"),
    "camera": (
        "camera",
        "shot size",
        "size",
        "shot type",
        "type",
        "angle",
        "camera angle",
        "movement",
        "camera movement",
        "framing",
        "lens",
    ),
    "place": ("location", "setting", "place", "set", "time of day", "time"),
    "seen": ("description", "action", "prompt", "visual", "image", "shot description", "what happens"),
    "said": ("caption", "dialogue", "dialog", "text", "voice over", "vo", "narration"),
    "cast": ("cast", "characters", "character", "actors", "talent"),
}
"""Meaning of a column: its headings, in lower case."""
SEPARATORS = ",;\t|"
SOFT_BREAK = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
SEPARATOR_LINE = re.compile(rf"sep=([{SEPARATORS}])$", re.IGNORECASE)
"""First line of tables for Excel."""
NAMES = re.compile(r"[,;/&+]|\band\b")
MAX_TITLES = 10
"""Number of rows in which the headings are searched."""

Row = tuple[Sequence[int], Sequence[str]]
"""Numbers of the row's lines, and its cells."""


def read_shot_list(text: str) -> Plan:
    """Return the plan of a table.

    Raises:
        ValueError: It has no column that describes the images, or no rows.
    """
    text = SOFT_BREAK.sub(" ", text)
    script = Script(text)
    given = SEPARATOR_LINE.match(script.lines[0]) if script.lines else None
    if given:
        script.use(1)
    fault = None
    for separator in given[1] if given else SEPARATORS:
        # Google Sheets writes quotation marks as they are.
        for quoted in (True, False) if separator == "\t" and "\t" in text else (True,):
            found = _rows(text, separator, quoted, 1 if given else 0)
            try:
                rows = list(itertools.islice(found, MAX_TITLES))
                if (head := headings_in(rows)) is None:
                    continue
                rows += found
            except csv.Error as error:
                fault = fault or error
                continue
            if len(rows[head][1]) == 1:
                rows = [(lines, [separator.join(row)]) for lines, row in rows]
            return plan_of_table(script, rows)
    if fault:
        raise ValueError(f"it is not a table: {fault}") from fault
    known = ", ".join(COLUMNS["seen"][:3])
    raise ValueError(f"no column describes the images; call it {known}")


def is_table_of_tabs(text: str) -> bool:
    """Return whether a text file is a table, as Excel writes "Unicode text"."""
    return "seen" in map(meaning, text.split("\n", 1)[0].split("\t"))


def headings_in(rows: Sequence[Row]) -> int | None:
    """Return the place of the row with the headings, if one describes the images."""
    return next((at for at, row in enumerate(rows[:MAX_TITLES]) if "seen" in map(meaning, row[1])), None)


def plan_of_table(script: Script, rows: Sequence[Row]) -> Plan:
    """Return the plan of a table whose headings are known.

    Raises:
        ValueError: It has no rows.
    """
    head = headings_in(rows) or 0
    for lines, _ in rows[:head]:
        script.leave_out("text before the headings", *lines)
    lines, headings = rows[head]
    script.use(*lines)
    meanings = [meaning(heading) for heading in headings]
    names: list[str] = []
    for lines, row in rows[head + 1 :]:
        names += _read_row(script, lines, row, meanings)
    unknown = [
        heading.strip()
        for at, heading in enumerate(headings)
        if not meanings[at] and any(at < len(row) and row[at].strip() for _, row in rows[head + 1 :])
    ]
    if unknown:
        script.remarks.append(f"columns {', '.join(repr(one or '-') for one in unknown)}")
    return script.plan(names)


def meaning(heading: str) -> str:
    """Return the meaning of a heading, a key of `COLUMNS`, or an empty text."""
    text = " ".join(re.sub(r"[_.*]", " ", heading).split()).casefold()
    return next((one for one, names in COLUMNS.items() if text in names), "")


def _read_row(script: Script, lines: Sequence[int], row: Sequence[str], meanings: Sequence[str]) -> list[str]:
    """Add the step of a row, and return the names in it."""
    cells: dict[str, list[str]] = {one: [] for one in COLUMNS}
    for one, cell in zip(meanings, row, strict=False):
        if one and cell.strip():
            cells[one].append(cell.strip())
    if any(map(str.strip, row[len(meanings) :])):
        script.leave_out("cells without a heading", *lines)
    if not cells["seen"] and not cells["said"]:
        if any(map(str.strip, row)):
            script.leave_out("rows without a description or caption", *lines)
        return []
    names = [cast_name(one) for one in NAMES.split(" , ".join(cells["cast"]))]
    if any(len(one) > MAX_NAME for one in names):
        script.leave_out(f"names of more than {MAX_NAME} characters", *lines)
    present = tuple(one for one in names if 0 < len(one) <= MAX_NAME) if "cast" in meanings else None
    script.begin(lines[0], " ".join([*cells["number"], *cells["name"]]), present)
    before = [", ".join(cells["camera"]), ", ".join(cells["place"])]
    if cells["seen"]:
        for text in (*before, *cells["seen"]):
            script.show(text, *lines)
    elif any(before):
        script.leave_out("camera and place of rows without a description", *lines)
    for text in cells["said"]:
        script.say(text, *lines)
    return list(present or ())


def _rows(text: str, separator: str, quoted: bool, skipped: int) -> Iterable[Row]:
    """Yield the rows of a table.

    Raises:
        csv.Error: It is not a table with this separator.
    """
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text), delimiter=separator, quoting=quoting, strict=True)
    before = 0
    for place, row in enumerate(reader):
        lines, before = range(before + 1, reader.line_num + 1), reader.line_num
        if place >= skipped:
            yield lines, row

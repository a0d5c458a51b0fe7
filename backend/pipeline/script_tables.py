"""Shot lists and outlines as plans.

A shot list is a table of a spreadsheet or a storyboard program, with one row for each step. Its columns are
known by their headings, in any order. The first row with a column that describes the images is the headings,
since programs write titles above it.

An outline is Markdown or plain text, as people type it and as programs export documents. The steps are the
headings if there are several below the title; otherwise the numbered items ("1. ...", "Shot 3: ..."), lines
in bold, bullets or paragraphs, the first of these that there are several of.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..core.types import Plan
from ..core.types.cast import MAX_NAME
from .script_steps import WORD, Script, cast_name, plain

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


ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])|\\$")
PICTURE = re.compile(
    r"!\[[^\[\]]{0,300}\](?:\([^()\s]*[^()]{0,300}\)|\[[^\[\]]{0,300}\])|<img\b[^<>]*>", re.IGNORECASE
)
LINK = re.compile(r"\[([^\[\]]{0,300})\](?:\([^()]{0,300}\)|\[[^\[\]]{0,300}\]|(?=\{))|\[\^[^\[\]]{1,30}\]")
ATTRIBUTES = re.compile(
    r"\{(?:[#.]|\w+=)[^{}]{0,300}\}|</?(?:a|aside|b|br|div|em|font|i|p|span|strong|su[bp]|u)\b[^<>]{0,300}>",
    re.IGNORECASE,
)
"""Attributes of pandoc, and HTML tags."""
CUT = {"comments": ("<!--", "-->"), "code": ("```", "```")}
LEFT_OUT = {"tables": re.compile(r"\|"), "link addresses and footnotes": re.compile(r"\[[^\[\]]{1,300}\]:\s")}
HEADING = re.compile(r"(#{1,6})\s+(\S.*)$")
UNDERLINE = re.compile(r"=+$|-{3,}$")
NUMBERED = re.compile(
    r"(?:step|panel|page|shot|scene|frame)\s*#?\s*\d{1,3}\s*(?:[.:)–—-]\s*|$)"
    r"|\(?\d{1,3}(?:[.)]|\s*[:–—]|\s+-)(?:\s+|$)",
    re.IGNORECASE,
)
BULLET = re.compile(r"[-*+•◦▪●‣](?:\s+|$)")
BOX = re.compile(r"\[[ xX]\]\s+")
BOLD = re.compile(r"(\*\*|__)(?=\S)(.{1,100})\1$")
QUOTE = re.compile(r">\s?")
LABEL = re.compile(r"(\w[\w ]{0,20})[:：]\s*")
FRONT_MATTER = re.compile(r"---\n(?:.*\n){0,60}?(?:---|\.\.\.)(?:\n|$)")
KINDS = ("number", "bold", "bullet")
"""Marks of steps if there are no headings, the first one that there are several of."""
MARKS = {"quote": QUOTE, "number": NUMBERED, "bullet": BULLET, "bold": BOLD}


@dataclass
class _Line:
    """A line: what its mark makes it, its level or indentation, and its text.

    `text` has no mark; `whole` has one that is more than the sign of a list, such as "Shot 3:". `to` is what
    the label of the line, such as "Caption:", makes it: seen, said or empty.
    """

    number: int
    kind: str
    depth: int = 0
    text: str = ""
    whole: str = ""
    to: str = ""


def read_markdown(text: str) -> Plan:
    """Return the plan of an outline.

    Raises:
        ValueError: It has no text.
    """
    script = Script(text, CUT)
    lines = list(_lines(script))
    title, kind = _structure(lines)
    if kind in ("paragraph", "line") and headings_in(table := list(_table(script.lines))) is not None:
        return plan_of_table(Script(text), table)
    base = min((one.depth for one in lines if one.kind == kind), default=0)
    blank = True
    for at, block in _blocks(lines, kind):
        first = block[0]
        is_step = first.kind == kind and first.depth < base + 2
        if first.kind == "heading" and (reason := _not_a_step(lines, at, kind, title)):
            script.leave_out(reason, first.number)
        elif first.kind == "heading" or (is_step and kind == "bold"):
            script.begin(first.number, plain(NUMBERED.sub("", plain(first.text), count=1)))
        elif first.kind != "blank":
            is_free = first.to != "said" or not script.beats
            if is_step or (is_free and (kind == "line" or (kind == "paragraph" and blank))):
                script.begin(first.number)
            texts = [first.text if is_step else first.whole, *(one.whole for one in block[1:])]
            tell = script.say if first.to == "said" else script.show
            tell(plain(" ".join(texts)), *(one.number for one in block))
        blank = first.kind == "blank"
    for beat in script.beats:
        beat.seen = beat.seen or [beat.name]
    return script.plan()


def _structure(lines: Sequence[_Line]) -> tuple[_Line | None, str]:
    """Return the heading that is the title, and which lines begin steps."""
    headings = [one for one in lines if one.kind == "heading"]
    has_title = headings and all(one.depth > headings[0].depth for one in headings[1:])
    title = headings[0] if has_title else None
    scenes = len(headings) - (title is not None)
    if scenes > 1:
        return title, "heading"
    for kind in KINDS:
        if sum(one.kind == kind for one in lines) > 1:
            return title, kind
    if scenes:
        return title, "heading"
    texts = [one.kind != "blank" for one in lines if one is not title]
    parts = sum(now and not before for before, now in zip([False, *texts], texts, strict=False))
    return title, "paragraph" if parts > 1 else "line"


def _not_a_step(lines: Sequence[_Line], at: int, kind: str, title: _Line | None) -> str:
    """Return why a heading does not begin a step: others do, or it only stands above deeper ones."""
    if lines[at] is title:
        return "title"
    if kind != "heading":
        return "headings"
    after = next((one for one in lines[at + 1 :] if one.kind != "blank"), None)
    above = after is not None and after.kind == "heading" and after.depth > lines[at].depth
    return "headings above others" if above else ""


def _blocks(lines: Sequence[_Line], kind: str) -> Iterator[tuple[int, list[_Line]]]:
    """Yield the lines that belong together, with the place of the first one."""
    alone = {"heading", "blank", "quote", "bold" if kind == "bold" else ""}
    start = 0
    for at, line in enumerate(lines):
        continues = line.kind == "text" and not line.to and kind != "line" and lines[start].kind not in alone
        if at > start and not continues:
            yield start, list(lines[start:at])
            start = at
    if lines:
        yield start, list(lines[start:])


def _lines(script: Script) -> Iterator[_Line]:
    """Yield the lines that can belong to a step, and the blank ones."""
    front = FRONT_MATTER.match(script.text)
    hidden = front.group().count("\n") if front else 0
    script.leave_out("metadata", *range(1, hidden + 1))
    last: _Line | None = None
    for number, line in enumerate(script.text.split("\n"), 1):
        stripped = line.strip()
        if number <= hidden or script.is_left_out(number, stripped, LEFT_OUT):
            continue
        # Shorter hyphens only separate.
        least = len(last.text) if last and stripped[:1] == "-" else 1
        if last and last.kind == "text" and UNDERLINE.match(stripped) and len(stripped) >= least:
            last.kind, last.depth = "heading", 1 if stripped[0] == "=" else 2
        without = PICTURE.sub("", line) if "<" in line or "![" in line else line
        if without != line:
            script.leave_out("images", number)
        if last:
            yield last
        last = _line(number, without)
        if last.kind == "blank":
            script.use(number)
    if last:
        yield last


def _line(number: int, line: str) -> _Line:
    if not WORD.search(line):
        return _Line(number, "blank")
    whole = ATTRIBUTES.sub(" ", LINK.sub(r"\1", line))
    whole = ESCAPE.sub(lambda found: found[1] or "", whole.rstrip()).expandtabs(4)
    depth, whole = len(whole) - len(whole.lstrip()), whole.strip()
    if not WORD.search(whole):
        return _Line(number, "blank")
    if found := HEADING.match(whole):
        return _Line(number, "heading", len(found[1]), found[2].rstrip("# "))
    kind, found = next(
        ((kind, found) for kind, mark in MARKS.items() if (found := mark.match(whole))), ("text", None)
    )
    text = whole
    if found and kind != "bold":
        text = BOX.sub("", whole[found.end() :], count=1)
        whole = text if found.group().rstrip()[-1] in ".)>" or kind == "bullet" else whole
    label = LABEL.match(plain(text))
    to = "said" if kind == "quote" else meaning(label[1]) if label else ""
    if label and to in ("seen", "said") and kind != "quote":
        text = whole = plain(text)[label.end() :]
    return _Line(number, kind, depth, text, whole, to if to in ("seen", "said") else "")


def _table(lines: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of the tables, without the lines below headings."""
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("|") and WORD.search(line):
            yield (number,), [plain(_line(0, cell).whole) for cell in line.strip().strip("|").split("|")]

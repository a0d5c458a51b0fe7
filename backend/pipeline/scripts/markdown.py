r"""Outlines: Markdown and plain text, as people type them and as programs export documents.

The steps are the headings if there are several below the title; otherwise the numbered items ("1. ...",
"Shot 3: ..."), lines in bold, bullets or paragraphs, the first of these that there are several of. What
follows belongs to the step: quotes (`> ...`) and lines with a label such as "Caption:" are its caption, the
rest is its image. Escapes are resolved before lines are read: a document's export writes `3\.` for an item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...types import Plan
from .shot_list import Row, headings_in, meaning, plan_of_table
from .steps import WORD, Script, plain

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

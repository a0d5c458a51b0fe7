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
ADDRESS = re.compile(r"\[[^\[\]]{1,300}\]:\s")
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
FENCES = ("```", "~~~")
FRONT_MATTER = re.compile(r"---\n(?:.*\n){0,60}?(?:---|\.\.\.)(?:\n|$)")
KINDS = ("number", "bold", "bullet")
"""Marks of steps if there are no headings, the first one that there are several of."""


@dataclass
class _Line:
    """A line: what its mark makes it, its level or indentation, and its text without the mark."""

    number: int
    kind: str
    depth: int
    text: str
    told: str
    """The text as part of a step that begins above."""


def read_markdown(text: str) -> Plan:
    """Return the plan of an outline.

    Raises:
        ValueError: It has no text.
    """
    script = Script(text)
    lines = list(_lines(script))
    title, kind = _structure(lines)
    if kind in ("paragraph", "line") and headings_in(table := list(_table(script.lines))) is not None:
        return plan_of_table(Script(text), table)
    base = min((one.depth for one in lines if one.kind == kind), default=0)
    blank = True
    for at, block in _blocks(lines, kind):
        first = block[0]
        if first.kind == "heading":
            reason = "title" if first is title else _not_a_step(lines, at, kind)
            if reason:
                script.leave_out(reason, first.number)
            else:
                script.begin(first.number, plain(NUMBERED.sub("", plain(first.text), count=1)))
        elif first.kind != "blank":
            begins = first.kind == kind and first.depth < base + 2
            if begins or (kind == "line" and first.kind != "quote") or (kind == "paragraph" and blank):
                _begin(script, block, kind)
            else:
                _tell(script, [one.told for one in block], block)
        blank = first.kind == "blank"
    for beat in script.beats:
        beat.seen = beat.seen or [beat.name]
    return script.plan()


def _begin(script: Script, block: Sequence[_Line], kind: str) -> None:
    """Begin a step with these lines, unless they are the caption of the step before."""
    first = block[0]
    texts = [first.text, *(one.told for one in block[1:])]
    if kind == "bold":
        script.begin(first.number, plain(NUMBERED.sub("", plain(first.text), count=1)))
    else:
        if not script.beats or first.kind == kind or not _is_caption(first):
            script.begin(first.number)
        _tell(script, texts, block)


def _tell(script: Script, texts: Sequence[str], block: Sequence[_Line]) -> None:
    """Add lines that belong together to the image or the caption of the step."""
    text = plain(" ".join(texts)).strip()
    label = _label(text)
    numbers = [one.number for one in block]
    if label or block[0].kind == "quote":
        text = LABEL.sub("", text, count=1) if label else text
    if label == "said" or block[0].kind == "quote":
        script.say(text, *numbers)
    else:
        script.show(text, *numbers)


def _is_caption(line: _Line) -> bool:
    return line.kind == "quote" or _label(plain(line.text)) == "said"


def _label(text: str) -> str:
    """Return what the label of a line, such as "Caption:", makes it: seen, said or nothing."""
    found = LABEL.match(text)
    meant = meaning(found[1]) if found else ""
    return meant if meant in ("seen", "said") else ""


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


def _not_a_step(lines: Sequence[_Line], at: int, kind: str) -> str:
    """Return why a heading does not begin a step: others do, or it only stands above deeper ones."""
    if kind != "heading":
        return "headings"
    after = next((one for one in lines[at + 1 :] if one.kind != "blank"), None)
    above = after is not None and after.kind == "heading" and after.depth > lines[at].depth
    return "headings above others" if above else ""


def _blocks(lines: Sequence[_Line], kind: str) -> Iterator[tuple[int, list[_Line]]]:
    """Yield the lines that belong together, with the place of the first one."""
    block: list[_Line] = []
    start = 0
    for at, line in enumerate(lines):
        continues = block and block[0].kind not in ("heading", "blank", "quote") and line.kind == "text"
        named = kind == "bold" and block and block[0].kind == "bold"
        if continues and kind != "line" and not named and not _label(plain(line.text)):
            block.append(line)
            continue
        if block:
            yield start, block
        start, block = at, [line]
    if block:
        yield start, block


def _lines(script: Script) -> Iterator[_Line]:
    """Yield the lines that can belong to a step, and the blank ones."""
    text = script.cut(script.text, "<!--", "-->", "comments")
    front = FRONT_MATTER.match(text)
    hidden = front.group().count("\n") if front else 0
    fence = ""
    last: _Line | None = None
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        before, fence = fence, _fence(stripped, fence)
        reason = "metadata" if number <= hidden else "code" if before or fence else ""
        reason = reason or ("tables" if stripped.startswith("|") else "")
        reason = reason or ("link addresses and footnotes" if ADDRESS.match(stripped) else "")
        if reason:
            script.leave_out(reason, number)
            continue
        if last and last.kind == "text" and _underlines(stripped, last.text):
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


def _fence(line: str, fence: str) -> str:
    """Return the fence that is open after a line. One without its end goes to the end of the file."""
    if fence:
        return "" if line == fence else fence
    return next((one for one in FENCES if line.startswith(one)), "")


def _underlines(line: str, text: str) -> bool:
    """Return whether a line makes the text above it a heading. Shorter hyphens only separate."""
    return bool(UNDERLINE.match(line)) and (line[0] == "=" or len(line) >= len(text))


def _line(number: int, line: str) -> _Line:
    if not WORD.search(line):
        return _Line(number, "blank", 0, "", "")
    whole = ATTRIBUTES.sub(" ", LINK.sub(r"\1", line))
    whole = ESCAPE.sub(lambda found: found[1] or "", whole.rstrip())
    depth, whole = len(whole.expandtabs(4)) - len(whole.expandtabs(4).lstrip()), whole.strip()
    if not WORD.search(whole):
        return _Line(number, "blank", 0, "", "")
    if found := HEADING.match(whole):
        text = found[2].rstrip("# ")
        return _Line(number, "heading", len(found[1]), text, text)
    if QUOTE.match(whole):
        text = QUOTE.sub("", whole, count=1)
        return _Line(number, "quote", depth, text, text)
    if found := NUMBERED.match(whole):
        text = BOX.sub("", whole[found.end() :], count=1)
        return _Line(number, "number", depth, text, text if found.group().rstrip()[-1] in ".)" else whole)
    if found := BULLET.match(whole):
        text = BOX.sub("", whole[found.end() :], count=1)
        return _Line(number, "bullet", depth, text, text)
    if found := BOLD.match(whole):
        return _Line(number, "bold", depth, whole, whole)
    return _Line(number, "text", depth, whole, whole)


def _table(lines: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of the tables, without the lines below headings."""
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("|") and WORD.search(line):
            yield (number,), [plain(_line(0, cell).told) for cell in line.strip().strip("|").split("|")]

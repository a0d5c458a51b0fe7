"""Fountain, the plain-text format of screenplays (fountain.io/syntax).

Every paragraph of action is a step: it shows the paragraph with its scene's heading, and its caption is the
dialogue that follows. Characters are the cast. Notes, omitted passages, sections, synopses, transitions,
centered titles and page breaks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...cast import MAX_CAST, named_in
from ...types import Plan
from .steps import Beat, cast_name, check_number, plan_of, without

TITLE_LINE = re.compile(r"[A-Za-z ]+:|[ \t]")
HEADING = re.compile(r"(?:INT\.?/EXT|EXT\.?/INT|INT|EXT|EST|I/E)[. ]\s*", re.IGNORECASE)
FORCED_HEADING = re.compile(r"\.(?![.])")
NUMBER = re.compile(r"#[\w.-]+#$")
TRANSITION = re.compile(r"[A-Z0-9 .]+TO:$|>")
CENTERED = re.compile(r">.*<$")
"""A title on a screen of its own, such as THE END."""
EMPHASIS = re.compile(r"(?<!\\)(\*{1,3}|_)(?=\S)(.{1,300}?)(?<=\S)\1")
PLACES = {"int": "Interior", "ext": "Exterior", "est": "Exterior"}
DROPPED = ("#", "=", "~")


class _Block(NamedTuple):
    """A paragraph: its kind (heading, action or dialogue), its speaker and its lines."""

    kind: str
    speaker: str
    lines: list[str]


def read_fountain(text: str) -> Plan:
    """Return the plan of a screenplay.

    Raises:
        ValueError: It has no action and no dialogue.
    """
    beats: list[Beat] = []
    names: list[str] = []
    heading = ""
    fresh = False
    for kind, speaker, lines in _blocks(text):
        check_number(len(beats))
        if kind == "heading":
            heading, fresh = lines[0], True
        elif kind == "action":
            beats.append(Beat(heading, [heading, *lines], []))
            fresh = False
        else:
            if len(names) < MAX_CAST and speaker not in names:
                names.append(speaker)
            if fresh or not beats:
                beats.append(Beat(heading, [heading or speaker], []))
                fresh = False
            seen, said = beats[-1].seen, beats[-1].said
            if not _has(seen, speaker):
                seen.append(speaker)
            said.append(f"{speaker}: {' '.join(lines)}")
    return plan_of([_with_cast(beat, names) for beat in beats] if names else beats, names)


def _with_cast(beat: Beat, names: list[str]) -> Beat:
    """Return the beat with those who are in it; their names in capitals are written as names."""
    present = tuple(name for name in names if _has(beat.seen, name))
    seen = [_without_capitals(text, present) for text in beat.seen]
    return beat._replace(seen=seen, cast=present)


def _without_capitals(text: str, names: Sequence[str]) -> str:
    for name in names:
        for found in reversed(list(named_in(name, text))):
            if found.group() == name.upper():
                text = f"{text[: found.start()]}{name}{text[found.end() :]}"
    return text


def _blocks(text: str) -> Iterator[_Block]:
    text = without(without(text, "/*", "*/"), "[[", "]]")
    for number, paragraph in enumerate(_paragraphs(text)):
        if number == 0 and all(map(TITLE_LINE.match, paragraph)) and not paragraph[0][0].isspace():
            continue
        lines = [line.strip() for line in paragraph]
        lines = [line for line in lines if not line.startswith(DROPPED)]
        lines = [line for line in lines if not CENTERED.match(line)]
        if not lines or (len(lines) == 1 and TRANSITION.match(lines[0])):
            continue
        first = lines[0]
        if HEADING.match(first) or FORCED_HEADING.match(first):
            yield _Block("heading", "", [_heading(first)])
            lines = lines[1:]
        elif len(lines) > 1 and (speaker := _speaker(first)):
            spoken = [_plain(line) for line in lines[1:] if not (line.startswith("(") and line.endswith(")"))]
            if spoken:
                yield _Block("dialogue", speaker, spoken)
            continue
        if lines:
            yield _Block("action", "", [_plain(" ".join(line.removeprefix("!") for line in lines))])


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Yield the lines between blank lines."""
    lines: list[str] = []
    for line in (*text.split("\n"), ""):
        if line.strip():
            lines.append(line)
        elif lines:
            yield lines
            lines = []


def _speaker(line: str) -> str:
    """Return the name in the line before dialogue, such as "MARA (V.O.)"; an empty text if it is none."""
    forced, line = line.startswith("@"), line.removeprefix("@").removesuffix("^").strip()
    name, bracket, extension = line.partition("(")
    if bracket and not extension.endswith(")"):
        return ""
    if forced:
        return cast_name(name)
    return cast_name(name).title() if name.isupper() else ""


def _heading(line: str) -> str:
    """Return a heading in words: "INT. KITCHEN - NIGHT" is "Interior, kitchen, night"."""
    line = NUMBER.sub("", " ".join(line.split())).rstrip()
    if (found := HEADING.match(line)) is None:
        return _lower(line[1:].strip()).capitalize() if line.isupper() else line[1:].strip()
    place = PLACES.get(found.group().strip(" .").lower(), "Interior and exterior")
    parts = re.split(r" [-–—]+ ", line[found.end() :].strip())
    return ", ".join([place, *map(_lower, filter(None, parts))])


def _lower(text: str) -> str:
    return text.lower() if text.isupper() else text


def _plain(line: str) -> str:
    return EMPHASIS.sub(r"\2", line).replace("\\", "")


def _has(texts: Sequence[str], name: str) -> bool:
    return any(any(named_in(name, text)) for text in texts)

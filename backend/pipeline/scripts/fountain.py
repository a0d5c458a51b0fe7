"""Fountain, the plain-text format of screenplays (fountain.io/syntax).

Every paragraph of action is a step: it shows the paragraph with its scene's heading, and its caption is the
dialogue that follows. Characters are the cast. Notes, omitted passages, sections, synopses, transitions,
cards and page breaks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...types import Plan
from .steps import Beat, cast_name, plan_of

LEFT_OUT = re.compile(r"/\*.*?\*/|\[\[.*?\]\]", re.DOTALL)
TITLE_PAGE = re.compile(r"(?:[A-Za-z ]+:.*\n(?:[ \t]+.*\n)*)+\n")
HEADING = re.compile(r"(?:INT\.?/EXT|EXT\.?/INT|INT|EXT|EST|I/E)[. ]\s*", re.IGNORECASE)
FORCED_HEADING = re.compile(r"\.(?![.])")
NUMBER = re.compile(r"\s*#[\w.-]+#\s*$")
TRANSITION = re.compile(r"[A-Z0-9 .]+TO:$|>")
CENTERED = re.compile(r">.*<$")
"""Text of a card, such as THE END."""
CUE = re.compile(r"@\S.*|(?=[^a-z]*[A-Z\u00c0-\u00de])[^a-z\u00df-\u00ff]+(?:\(.*\))?\s*\^?$")
EXTENSION = re.compile(r"\s*\(.*$|\s*\^$")
EMPHASIS = re.compile(r"(?<!\\)(\*{1,3}|_)(?=\S)(.+?)(?<=\S)\1")
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
        if kind == "heading":
            heading, fresh = lines[0], True
        elif kind == "action":
            beats.append(Beat(heading, [heading, *lines]))
            fresh = False
        else:
            names.append(speaker)
            if fresh or not beats:
                beats.append(Beat(heading, [heading or speaker]))
                fresh = False
            last = beats.pop()
            said = f"{speaker}: {' '.join(lines)}"
            seen = last.seen if any(_has(one, speaker) for one in last.seen) else [*last.seen, speaker]
            beats.append(last._replace(seen=seen, said=[*last.said, said]))
    known = list(dict.fromkeys(names))
    return plan_of([_with_cast(beat, known) for beat in beats] if known else beats, known)


def _with_cast(beat: Beat, names: list[str]) -> Beat:
    """Return the beat with those who are in it; their names in capitals are written as names."""
    present = tuple(name for name in names if any(_has(one, name) for one in beat.seen))
    seen = list(beat.seen)
    for name in present:
        capitals = rf"(?<!\w){re.escape(name.upper())}(?!\w)"
        seen = [re.sub(capitals, name, text) for text in seen]
    return beat._replace(seen=seen, cast=present)


def _blocks(text: str) -> Iterator[_Block]:
    text = LEFT_OUT.sub("", text).strip("\n") + "\n\n"
    if title := TITLE_PAGE.match(text):
        text = text[title.end() :]
    for paragraph in re.split(r"\n[ \t]*\n", text):
        lines = [line.strip() for line in paragraph.split("\n") if line.strip()]
        lines = [line for line in lines if not line.startswith(DROPPED)]
        lines = [line for line in lines if not CENTERED.match(line)]
        if not lines or (len(lines) == 1 and TRANSITION.match(lines[0])):
            continue
        first = lines[0]
        if HEADING.match(first) or FORCED_HEADING.match(first):
            yield _Block("heading", "", [_heading(first)])
            lines = lines[1:]
        elif len(lines) > 1 and CUE.fullmatch(first) and not first.startswith("!"):
            speaker = cast_name(EXTENSION.sub("", first.removeprefix("@")))
            speaker = speaker if first.startswith("@") else speaker.title()
            spoken = [_plain(line) for line in lines[1:] if not (line.startswith("(") and line.endswith(")"))]
            if speaker and spoken:
                yield _Block("dialogue", speaker, spoken)
            continue
        if lines:
            yield _Block("action", "", [_plain(" ".join(line.removeprefix("!") for line in lines))])


def _heading(line: str) -> str:
    """Return a heading in words: "INT. KITCHEN - NIGHT" is "Interior, kitchen, night"."""
    line = NUMBER.sub("", line)
    if (found := HEADING.match(line)) is None:
        return _lower(line[1:].strip()).capitalize() if line.isupper() else line[1:].strip()
    place = PLACES.get(found.group().strip(" .").lower(), "Interior and exterior")
    parts = re.split(r"\s+[-–—]+\s+", line[found.end() :].strip())
    return ", ".join([place, *map(_lower, filter(None, parts))])


def _lower(text: str) -> str:
    return text.lower() if text.isupper() else text


def _plain(line: str) -> str:
    return EMPHASIS.sub(r"\2", line).replace("\\", "")


def _has(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None

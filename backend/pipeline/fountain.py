"""Fountain, the plain-text format of screenplays (fountain.io/syntax).

Every paragraph of action is a step: it shows the paragraph with its scene's heading, and its caption is the
dialogue that follows. Characters are the cast; those who speak off screen are not in the image. The title
page, notes, sections, synopses, transitions and other lines without a place in a plan are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..core.types import Plan
from ..core.types.cast import MAX_NAME, named_in
from .script_steps import Script, cast_name, plain

Line = tuple[int, str]
"""Number of a line, and its text."""
TITLE_LINE = re.compile(r"[A-Za-z ]+:|[ \t]")
TITLE_KEY = re.compile(
    r"(?:title|credit|authors?|source|notes?|(?:draft )?date|contact(?: info)?|copyright|revision)\s*:",
    re.IGNORECASE,
)
HEADING = re.compile(
    r"(?:(\d+[A-Z]?)[. ]\s*)?((?:INT\.?/EXT|EXT\.?/INT|INT|EXT|EST|I/E)[. ])\s*", re.IGNORECASE
)
SCREENPLAY = re.compile(r"^[ \t]*(?:\d+[A-Z]?[. ]\s*)?(?:INT|EXT)[./]\s*\S", re.MULTILINE)
"""Heading of a scene in a text file, as programs for screenplays export them."""
FORCED_HEADING = re.compile(r"\.(?![.])")
NUMBER = re.compile(r"#[\w.-]+#$")
CUT = {"omitted passages": ("/*", "*/"), "notes": ("[[", "]]")}
LEFT_OUT = {
    "sections": re.compile("#"),
    "synopses": re.compile("="),
    "centered lines": re.compile(r">.*<$"),
    "page marks": re.compile(r"\(?(?:MORE|CONT['’]D|CONTINUED)\b[:.)]*$"),
}
"""Lines that are not part of the story: what they are, and how they begin."""
TRANSITION = re.compile(r"[A-Z0-9 .]+TO:$|(?:FADE|CUT|DISSOLVE)\b[A-Z ]*[.:]?$|>")
PLACES = {"int": "Interior", "ext": "Exterior", "est": "Exterior"}
OFF_SCREEN = re.compile(r"(?:v\.? ?o|o\.? ?[sc])\b|voice|off\b|pre-?lap", re.IGNORECASE)
CONTINUED = re.compile(r"(?:cont['’.]?d?\.?|continued|continuing)$", re.IGNORECASE)
PART = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
INNER_CAPITAL = re.compile(r"(Mc|[A-Z]['’])([a-z])(?=\w)")
ROMAN = re.compile(r"[IVX]{2,}")
MAX_SEARCHED = 48
"""Number of speakers whose names are searched in the whole text."""


def read_fountain(text: str) -> Plan:
    """Return the plan of a screenplay.

    Raises:
        ValueError: It has no action and no dialogue.
    """
    return _Reader(Script(text, CUT)).plan()


class _Reader:
    """Reads paragraph by paragraph."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._heading = ""
        self._unused: int | None = None
        """Line of a heading without a step."""
        self._spelled: dict[str, str] = {}
        self._speaking: list[dict[str, None]] = []
        """Those who speak in the image of each step, in order."""

    def plan(self) -> Plan:
        """Read the text and return its plan."""
        in_title = True
        for place, paragraph in enumerate(_paragraphs(self._script.text.split("\n"), self._script.lines)):
            in_title = in_title and _is_title(paragraph, place == 0)
            if in_title:
                self._leave_out(paragraph, "title page")
            else:
                self._read(paragraph)
        self._drop_heading()
        return self._script.plan(self._with_cast())

    def _read(self, paragraph: Sequence[Line]) -> None:
        stripped = [(number, line.strip()) for number, line in paragraph]
        lines = [one for one in stripped if not self._script.is_left_out(*one, LEFT_OUT)]
        if len(lines) == 1 and TRANSITION.match(lines[0][1]):
            self._leave_out(lines, "transitions")
        elif lines and (HEADING.match(lines[0][1]) or FORCED_HEADING.match(lines[0][1])):
            self._drop_heading()
            self._unused, self._heading = lines[0][0], _heading(lines[0][1])
            self._action(lines[1:])
        elif len(lines) > 1 and (cue := self._cue(lines[0][1])):
            self._dialogue(lines, *cue)
        elif lines and all(line.startswith("~") for _, line in lines):
            if self._unused is not None:
                self._begin(lines[0][0])
            for number, line in lines:
                self._script.say(_spoken(line), number)
        else:
            self._action(lines)

    def _action(self, lines: Sequence[Line]) -> None:
        if lines:
            self._begin(lines[0][0])
            shown = " ".join(line.removeprefix("!").removeprefix("~") for _, line in lines)
            self._script.show(_plain(shown), *(number for number, _ in lines))

    def _dialogue(self, lines: Sequence[Line], speaker: str, extension: str) -> None:
        spoken = []
        for number, line in lines[1:]:
            if line.startswith("(") and line.endswith(")"):
                self._script.leave_out("remarks on how a line is spoken", number)
            else:
                self._script.use(number)
                spoken.append(_spoken(line))
        if not spoken:
            return
        number = lines[0][0]
        if self._unused is not None or not self._script.beats:
            self._begin(number)
        self._script.say(f"{speaker}: {' '.join(spoken)}", number)
        off_screen = OFF_SCREEN.search(extension)
        if extension and not off_screen and not CONTINUED.match(extension):
            self._script.leave_out("remarks on how a line is spoken", number)
        speaking = self._speaking[-1]
        if not off_screen and speaker not in speaking:
            speaking[speaker] = None
            if len(speaking) > MAX_SEARCHED or not _has(self._script.beats[-1].seen, speaker):
                self._script.show(speaker, number)

    def _begin(self, number: int) -> None:
        """Begin a step in the scene."""
        self._script.begin(number, self._heading)
        self._speaking.append({})
        if self._unused is not None:
            self._script.use(self._unused)
            self._unused = None
        self._script.show(self._heading, number)

    def _drop_heading(self) -> None:
        if self._unused is not None:
            self._script.leave_out("scenes without action or dialogue", self._unused)

    def _leave_out(self, lines: Sequence[Line], reason: str) -> None:
        self._script.leave_out(reason, *(number for number, _ in lines))

    def _cue(self, line: str) -> tuple[str, str] | None:
        """Return speaker and extension of a line before dialogue such as "MARA (V.O.)"."""
        forced, line = line.startswith("@"), line.removeprefix("@").removesuffix("^").strip()
        name, bracket, extension = line.partition("(")
        name = cast_name(name)
        is_cue = (forced or name.isupper()) and not line.startswith("!")
        if not 0 < len(name) <= MAX_NAME or not is_cue or (bracket and not extension.endswith(")")):
            return None
        key = name.casefold()
        if key not in self._spelled:
            written = self._as_written(name) if len(self._spelled) < MAX_SEARCHED else ""
            self._spelled[key] = name if forced else written or _titled(name)
        return self._spelled[key], extension[:-1].strip()

    def _as_written(self, name: str) -> str:
        """Return a name with the capitals that it has elsewhere in the script; empty if there are none."""
        for found in named_in(name, self._script.text):
            written = found.group()
            if not written.isupper() and written[0].isupper() and written.split()[-1][0].isupper():
                return written
        return ""

    def _with_cast(self) -> list[str]:
        """Complete the steps with those whom their action names, and return the cast."""
        names = list(self._spelled.values())
        in_image: set[str] = set()
        for beat, speaking in zip(self._script.beats, self._speaking, strict=True):
            named = [one for one in names[:MAX_SEARCHED] if one in speaking or _has(beat.seen, one)]
            beat.seen = [_without_capitals(text, named) for text in beat.seen]
            beat.cast = tuple(dict.fromkeys((*named, *speaking))) if names else None
            in_image.update(beat.cast or ())
        return [name for name in names if name in in_image]


def _without_capitals(text: str, names: Sequence[str]) -> str:
    for name in names:
        kept, at = [], 0
        for found in named_in(name, text):
            if found.group() == name.upper():
                kept += [text[at : found.start()], name]
                at = found.end()
        text = "".join([*kept, text[at:]])
    return text


def _paragraphs(lines: Sequence[str], written: Sequence[str]) -> Iterator[list[Line]]:
    """Yield the lines between blank lines. A line that is blank without its note separates nothing."""
    found: list[Line] = []
    for number, (line, before) in enumerate(zip(lines, (*written, ""), strict=False), 1):
        if line.strip():
            found.append((number, line))
        elif found and not before.strip():
            yield found
            found = []
    if found:
        yield found


def _is_title(paragraph: Sequence[Line], is_first: bool) -> bool:
    """Return whether a paragraph at the beginning belongs to the title page, which may have blank lines."""
    lines = [line for _, line in paragraph]
    if TITLE_KEY.match(lines[0]):
        return True
    if any(HEADING.match(line.strip()) for line in lines) or not all(map(TITLE_LINE.match, lines)):
        return False
    return is_first or lines[0][0].isspace()


def _heading(line: str) -> str:
    """Return a heading in words: "INT. KITCHEN - NIGHT" is "Interior, kitchen, night"."""
    line = NUMBER.sub("", " ".join(line.split())).rstrip()
    if (found := HEADING.match(line)) is None:
        return _lower(line[1:].strip()).capitalize() if line.isupper() else line[1:].strip()
    place = PLACES.get(found[2].strip(" .").lower(), "Interior and exterior")
    rest = line[found.end() :].removesuffix(f" {found[1]}")
    parts = re.split(r" [-–—]+ ", rest.strip())
    return ", ".join([place, *map(_lower, filter(None, parts))])


def _titled(name: str) -> str:
    """Return a name in capitals as a name: "SARAH'S FRIEND" is "Sarah's Friend", and "C-3PO" stays."""

    def part(found: re.Match[str]) -> str:
        word = found.group()
        if any(map(str.isdigit, word)) or ROMAN.fullmatch(word):
            return word
        return INNER_CAPITAL.sub(lambda inner: inner[1] + inner[2].upper(), word.capitalize(), count=1)

    return PART.sub(part, name)


def _lower(text: str) -> str:
    return text.lower() if text.isupper() else text


def _plain(line: str) -> str:
    return plain(line).replace("\\", "")


def _spoken(line: str) -> str:
    return _plain(line.removeprefix("~"))


def _has(texts: Sequence[str], name: str) -> bool:
    return any(not found.group().islower() for text in texts for found in named_in(name, text))

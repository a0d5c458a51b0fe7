"""Collects the steps of a script. Each of its lines is in a step, or in the notice of the plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.types import MAX_STEPS, Plan, Step
from ..core.types.cast import MAX_CAST, NOT_IN_A_NAME, CastMember

WORD = re.compile(r"\w")
UNSEEN = {0xA0: " ", 0x202F: " ", 0x200B: None, 0xFEFF: None, 0xAD: None}
"""Spaces that do not break, and characters without a width."""
EMPHASIS = re.compile(
    r"(\*{1,3}|`)(?=\S)(.{1,300}?)(?<=\S)\1|(?<!\w)(_{1,3})(?=\S)(.{1,300}?)(?<=\S)\3(?!\w)"
)
MAX_RANGES = 40
MAX_SHOWN = 60


@dataclass
class Beat:
    """What one step shows and tells.

    Attributes:
        line: Number of the line that begins it.
        name: Short name of the step.
        seen: Sentences for the image.
        said: Lines of the caption.
        cast: Names of those who are in it; `None` if the script does not say.
    """

    line: int
    name: str = ""
    seen: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    cast: tuple[str, ...] | None = None


class Script:
    """The steps of a script while a reader goes through its lines.

    A reader puts each line into a step or leaves it out for a reason. A line that it does neither with is
    left out too, so no line is dropped without a notice.

    Args:
        text: Content of the file.
        cut: Passages to leave out: what they are, and the marks at their begin and end.

    Attributes:
        lines: All lines.
        text: The lines without these passages.
    """

    def __init__(self, text: str, cut: Mapping[str, tuple[str, str]] | None = None) -> None:
        self.lines = text.translate(UNSEEN).splitlines()
        self.beats: list[Beat] = []
        self.remarks: list[str] = []
        self._used: set[int] = set()
        self._left: dict[str, list[int]] = {}
        self.text = "\n".join(self.lines)
        for reason, marks in (cut or {}).items():
            self.text = self._without(self.text, *marks, reason)

    def begin(self, line: int, name: str = "", cast: tuple[str, ...] | None = None) -> Beat:
        """Begin a step.

        Raises:
            ValueError: There are more steps than a plan can have.
        """
        if len(self.beats) == MAX_STEPS:
            raise ValueError(f"it has more than {MAX_STEPS} steps")
        self._used.add(line)
        self.beats.append(Beat(line, name, cast=cast))
        return self.beats[-1]

    def show(self, text: str, *lines: int) -> None:
        """Add the text of these lines to the image of the last step."""
        if self._are_in_a_step(lines):
            self.beats[-1].seen.append(text)

    def say(self, text: str, *lines: int) -> None:
        """Add the text of these lines to the caption of the last step."""
        if self._are_in_a_step(lines):
            self.beats[-1].said.append(text)

    def use(self, *lines: int) -> None:
        """Note that these lines need no notice, since their content is in a step."""
        self._used.update(lines)

    def leave_out(self, reason: str, *lines: int) -> None:
        """Name lines, of which at least a part is left out, in the notice."""
        self._left.setdefault(reason, []).extend(lines)

    def is_left_out(self, line: int, text: str, marks: Mapping[str, re.Pattern[str]]) -> bool:
        """Leave a line out if it begins with one of these marks, and return whether it does."""
        reason = next((one for one, mark in marks.items() if mark.match(text)), None)
        if reason:
            self.leave_out(reason, line)
        return reason is not None

    def plan(self, names: Sequence[str] = ()) -> Plan:
        """Return the plan with its notice. Steps that show and tell nothing are left out.

        Args:
            names: The cast.

        Raises:
            ValueError: No step is left.
        """
        found = []
        for beat in self.beats:
            if any(map(str.strip, (*beat.seen, *beat.said))):
                found.append(beat)
            else:
                self.leave_out("steps without a text", beat.line)
        if not found:
            raise ValueError("it has no steps")
        cast = self._cast(names)
        known = {member.name.casefold(): member.name for member in cast}
        steps = []
        for number, beat in enumerate(found, 1):
            listed = () if beat.cast is None else [known.get(name.casefold()) for name in beat.cast]
            steps.append(
                Step(
                    number=number,
                    name=beat.name,
                    prompt=" ".join(map(sentence, filter(None, map(str.strip, beat.seen)))) or None,
                    auxiliary_text="\n".join(beat.said).strip() or None,
                    cast=None if beat.cast is None else tuple(dict.fromkeys(filter(None, listed))),
                )
            )
        return Plan(steps=tuple(steps), cast=cast, warning=self._notice())

    def _without(self, text: str, begin: str, end: str, reason: str) -> str:
        """Return a text without the passages between two marks, but with their line ends.

        A mark without its end is part of the text.
        """
        kept, at, line = [], 0, 1
        while (start := text.find(begin, at)) >= 0 and (stop := text.find(end, start + len(begin))) >= 0:
            stop += len(end)
            line += text.count("\n", at, start)
            ends = text.count("\n", start, stop)
            self.leave_out(reason, *range(line, line + ends + 1))
            kept += [text[at:start], "\n" * ends]
            at, line = stop, line + ends
        return "".join([*kept, text[at:]])

    def _are_in_a_step(self, lines: Sequence[int]) -> bool:
        """Return whether a step has begun; without one, the lines are left out."""
        if self.beats:
            self._used.update(lines)
        else:
            self.leave_out("text before the first step", *lines)
        return bool(self.beats)

    def _cast(self, names: Sequence[str]) -> tuple[CastMember, ...]:
        # The first spelling of a name is its name.
        spelled = {name.casefold(): name for name in reversed(list(names))}
        found = [spelled[name] for name in dict.fromkeys(map(str.casefold, names))]
        if len(found) > MAX_CAST:
            more = ", ".join(map(repr, found[MAX_CAST : MAX_CAST + MAX_RANGES]))
            self.remarks.append(f"{len(found) - MAX_CAST} names, since a cast has up to {MAX_CAST}: {more}")
        return tuple(CastMember(name=name) for name in found[:MAX_CAST])

    def _notice(self) -> str:
        named = self._used.union(*self._left.values())
        for line, text in enumerate(self.lines, 1):
            if line not in named and WORD.search(text):
                self.leave_out("other lines", line)
        found = [
            f"{reason} ({self._lines(lines)})"
            for reason, lines in self._left.items()
            if any(WORD.search(self.lines[line - 1]) for line in lines)
        ]
        left = "; ".join([*self.remarks, *found])
        return f"Left out of the plan: {left}." if left else ""

    def _lines(self, lines: Iterable[int]) -> str:
        """Return the numbers of lines, and how the first one reads."""
        ranges: list[list[int]] = []
        for line in sorted(set(lines)):
            if ranges and line == ranges[-1][1] + 1:
                ranges[-1][1] = line
            else:
                ranges.append([line, line])
        shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:MAX_RANGES]]
        more = f" and others up to line {ranges[-1][1]}" if len(ranges) > MAX_RANGES else ""
        text = " ".join(self.lines[ranges[0][0] - 1].split())
        text = f"{text[: MAX_SHOWN - 1]}…" if len(text) > MAX_SHOWN else text
        return f"line{'' if shown == [str(ranges[0][0])] else 's'} {', '.join(shown)}{more}: {text!r}"


def plain(text: str) -> str:
    """Return a text without the marks of emphasis."""
    return EMPHASIS.sub(lambda found: found[2] or found[4], text)


def sentence(text: str) -> str:
    """Return a text on one line that ends with a mark."""
    text = " ".join(text.split())
    return text if text[-1] in ".!?。！？…" else f"{text}."


def cast_name(text: str) -> str:
    """Return a text without the characters that a name cannot have."""
    return " ".join(NOT_IN_A_NAME.sub(" ", text).split())

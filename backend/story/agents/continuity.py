"""Rules of the plan check for shots that follow each other: shot sizes and camera axis.

They read English. A prompt need not repeat what the image before it shows, so a word that is missing proves
nothing: a rule needs two texts that contradict each other, and no words that explain the change. The words
are in continuity.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...core.types import Step

Shot = tuple[Step, str]
"""A step with an image, and the beginning of its prompt."""


def _tables() -> dict[str, str]:
    """Return the alternatives of each table of words, by its name."""
    found: dict[str, str] = {}
    text = re.sub("(?m)^#.*\n", "", Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
    for table in text.split("\n\n"):
        name, _, words = table.strip().partition(": ")
        pattern = f"(?:{'|'.join(words.split())})".replace("_", " ")
        found[name] = re.sub(r"{([a-z]+)}", lambda one: found[one[1]], pattern)
    return found


WORDS = _tables()
READ = {name: re.compile(words, re.IGNORECASE) for name, words in WORDS.items()}


def same_shot_size(shots: Sequence[Shot], request: str) -> Iterator[tuple[int, str]]:
    """Find the third of three shots in a row with the same size, unless the request asks for that."""
    row: list[str] = []
    for step, prompt in () if READ["asked"].search(request) else shots:
        sizes = {_size(found): found.group() for found in READ["size"].finditer(prompt)}
        if len(sizes) > 1:
            sizes.pop("establishing", None)
        # A shot with two sizes is one in which the camera moves.
        size = next(iter(sizes)) if len(sizes) == 1 else ""
        row = [*row, size] if row and {size, row[-1]} in ({size}, {"establishing", "wide"}) else [size]
        if size and len(row) == 3:
            yield step.number, f"The third shot in a row of the same size: '{sizes[size]}'."


def _size(found: re.Match[str]) -> str:
    return " ".join(name for name, text in found.groupdict().items() if text)


class Placed(NamedTuple):
    """Where a character goes, looks or is in an image. `which`: the words that tell it from others."""

    how: str
    who: str
    which: frozenset[str]
    is_left: bool

    def is_of(self, other: Placed) -> bool:
        """Return whether both tell the same of one character, not of two with the same noun."""
        return self[:2] == other[:2] and (self.which <= other.which or self.which >= other.which)


def _who(text: str) -> list[tuple[int, str, frozenset[str]]]:
    """Return where a text names characters, and whom."""
    return [
        (one.start(), one[1] or one[3].lower(), frozenset(f"{one[2] or ''} {one[4] or ''}".lower().split()))
        for one in READ["who"].finditer(text)
    ]


def _placed(prompt: str) -> Iterator[Placed]:
    """Yield what a prompt tells of the sides of characters."""
    subject = (0, "they" if READ["pronoun"].search(prompt) else "", frozenset[str]())
    for part in READ["parts"].split(READ["opening"].sub(lambda one: one[1] or "on the ", prompt)):
        people = _who(part)
        # A part that begins with another noun tells nothing of the subject before.
        first = people[0] if people else (0, "", subject[2]) if READ["noun"].match(part) else subject
        for how in ("comes", "crosses", "goes", "looks", "is"):
            for found in READ[how].finditer(part):
                before = [one for one in people if one[0] < found.start()]
                _, who, which = before[-1] if before else first if how == "is" else subject
                is_left = (found[found.lastindex or 0].lower() == "left") != (how == "comes")
                if who:
                    yield Placed(how if how in ("looks", "is") else "goes", who, which, is_left)
            part = READ[how].sub(lambda one: "·" * len(one.group()), part)
        subject = people[0] if people else subject


def axis(shots: Sequence[Shot]) -> Iterator[tuple[int, str]]:
    """Find characters who change their side of the picture or direction between neighboring shots.

    A shot that says that it is of the same moment is also compared with the shot before its neighbor. In
    others, one character alone may have moved: two must change sides, or one its direction.
    """
    for at, shot in enumerate(shots):
        is_same = bool(READ["same"].search(shot[1]))
        for before in reversed(shots[max(0, at - 1 - is_same) : at]):
            moved = list(_moved(before, shot))
            is_clear = is_same or len({one.who for one in moved}) > 1 or "goes" in [one.how for one in moved]
            if moved and is_clear and not _is_new_scene(shots[:at], shot):
                number = before[0].number
                yield shot[0].number, f"'{moved[0].who}' changes sides after step {number} without a cut."
                break


def _moved(before: Shot, shot: Shot) -> Iterator[Placed]:
    """Yield where characters were who are on the other side in a shot, if no words explain it."""
    both = f"{_told(before)} {_told(shot)}"
    was, now = list(_placed(before[1])), list(_placed(shot[1]))
    for one in () if READ["cut"].search(both) or READ["edit"].search(shot[1]) else was:
        sides = [{other.is_left for other in shown if one.is_of(other)} for shown in (was, now)]
        explained = READ["moved"].search(both) if one.how == "is" else READ["turned"].search(_told(shot))
        glances = one.how == "looks" and " looks " in both and not READ["film"].search(shot[1])
        if not explained and not glances and sides in ([{True}, {False}], [{False}, {True}]):
            yield one


def _told(shot: Shot) -> str:
    """Return the prompt and the caption of a shot."""
    return f"{shot[1]} {shot[0].auxiliary_text or ''}"


def _is_new_scene(before: Sequence[Shot], shot: Shot) -> bool:
    """Return whether a shot tells of another time, or of a place that no shot before it has."""
    known = " ".join(prompt.lower() for _, prompt in before)
    places = [one[1] or one[2] for one in READ["place"].finditer(shot[1])]
    return bool(READ["scene"].search(_told(shot))) or any(one.lower() not in known for one in places)

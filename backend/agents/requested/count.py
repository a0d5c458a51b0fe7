"""Finds how many steps a request asks for: "in 40 steps", "Drei Bilder: ...", 用二十步, 네 장.

The result decides whether a plan is written in one reply or in parts, how many lines an outline should have,
and whether the planner is asked again. It never rejects a plan. A request without a number is planned in one
reply. A number that means something else ("100 pictures of an exhibition") costs one outline. A number is
exact only if its place in the request makes clear that it counts the steps: a missed number costs nothing, a
wrong one a second plan. The words are in number_words.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ...types import MAX_STEPS
from . import number_words as words

MAX_READ = 20_000
"""Maximum length, in characters, of the part of a request that is read."""
AROUND = 60
"""Characters before and after a number that decide what it counts."""
BEGINS = r"(?:^|[.!?:;,(（。，：；！？、\n—–])\s*"
ENDS = r"\s*(?:$|[.!?:;)）。！？：；\n—–])"
ENDS_OR_COMMA = r"\s*(?:$|[,.!?:;)），。！？：；\n—–])"
WITH = "with|each|mit|jede|jedes|jeweils|avec|chacune|con|cada|com|с|каждая|ile"
PLACE_FOLLOWS = re.compile(
    r"\s+(?:on|at|hang\w*|above|over|auf|an|sur|sobre|en la pared|на)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class AskedCount:
    """A number of steps, from `least` to `most`.

    Attributes:
        least: Smallest number.
        most: Greatest number.
        exact: There is one number, and it clearly counts the steps.
        of_images: It counts images, and text-only steps may be added.
    """

    least: int
    most: int
    exact: bool = False
    of_images: bool = field(default=False, compare=False)

    @property
    def is_clear(self) -> bool:
        """Whether it clearly counts the steps: an exact number, or a range."""
        return self.exact or self.least < self.most

    @property
    def words(self) -> str:
        """The count as it is inserted into a prompt."""
        return f"{self.most}" if self.least == self.most else f"{self.least} to {self.most}"

    def distance(self, count: int) -> int:
        """Return by how many steps a number of steps is outside of the range."""
        return max(self.least - count, count - self.most, 0)


class _Found(NamedTuple):
    """A number in a request. `rank`: 2 after "in" or "exactly", 1 in another clear place, else 0."""

    least: int
    most: int
    rank: int
    of_images: bool


def asked_count(text: str) -> AskedCount | None:
    """Return the count that a request names: the first exact one, else the largest; `None` if none.

    Numbers in clear places that differ are not exact.
    """
    counts = _counts(text)
    led = [one for one in counts if one.rank == 2 and one.least == one.most]
    if led:
        return AskedCount(led[0].most, led[0].most, exact=True)
    clear = [one for one in counts if one.rank == 1 and one.least == one.most]
    if clear and len({one.most for one in clear}) == 1:
        return AskedCount(clear[0].most, clear[0].most, True, all(one.of_images for one in clear))
    best = max(counts, key=lambda one: one.most, default=None)
    return best and AskedCount(best.least, best.most)


def asked_images(text: str) -> int | None:
    """Return the one number of images that a request clearly names, or `None`."""
    clear = {one.most for one in _counts(text) if one.rank and one.of_images and one.least == one.most}
    return clear.pop() if len(clear) == 1 else None


def counts_images(text: str) -> bool:
    """Return whether a request clearly asks for a number of images."""
    return any(one.rank and one.of_images for one in _counts(text))


def _counts(text: str) -> list[_Found]:
    """Return all numbers of a request that may count steps, by language."""
    text = text[:MAX_READ]
    found = [one for pattern in SPACED for one in _spaced(pattern, text)]
    found += [*_han(text), *_korean(text)]
    return [one for one in found if 1 <= one.least <= one.most <= MAX_STEPS]


def _listed(table: str) -> list[str]:
    """Return a table's words as patterns, the longest first."""
    found = [form for word in table.split() for form in word.split("/")]
    found.sort(key=len, reverse=True)
    return [
        re.escape(form).replace(r"\*", r"\w{0,6}").replace("_", r"\s").replace(r"\ ", r"\s") for form in found
    ]


def _any(*tables: str) -> str:
    """Return a pattern of all words of some tables; it matches nothing if they are empty."""
    return "|".join(pattern for table in tables for pattern in _listed(table)) or r"(?!)"


class _Pattern:
    """The compiled table of a language."""

    def __init__(self, table: words.Spaced) -> None:
        names = [*enumerate(table.numbers.split(), 1)]
        names += [(10 * tens, name) for tens, name in enumerate(table.tens.split(), 3)]
        self._values = {form.replace("_", " "): value for value, name in names for form in name.split("/")}
        twenty = table.numbers.split()[19]
        ones = _any(" ".join(table.numbers.split()[:9]))
        number = (
            rf"\d{{1,4}}|(?:{_any(table.tens, twenty)})(?:[\s-](?:{ones}))?|{_any(table.numbers, table.tens)}"
        )
        between = rf"\s{{1,3}}(?:{_any(table.between)})\s{{1,3}}"
        self.unit = re.compile(rf"[\s-](?:{_any(table.steps, table.images)})(?!\w)", re.IGNORECASE)
        self.count = re.compile(
            rf"(?<![\w-])(?:(?P<digits>\d{{1,4}})\s?[-–—]\s?|(?P<least>{number}){between})?(?P<most>{number})"
            rf"(?P<gap>[\s-])(?:(?!(?:{_any(table.not_adjectives)})\s)[^\W\d]{{1,20}}\s){{0,2}}?"
            rf"(?P<unit>(?P<step>{_any(table.steps)})|{_any(table.images)})(?!\w)",
            re.IGNORECASE,
        )
        self._lead = _ends(rf"\b(?:{_any(table.leads)})\s{{1,3}}(?:(?:{_any(table.leads)})\s{{1,3}})?")
        self._maker = _ends(rf"\b(?:{_any(table.makers)})\s?(?:(?:{_any(table.to_whom)})\s){{0,2}}")
        self._genre = _ends(rf"\b(?:{_any(table.genres)})\s(?:{_any(table.made_of)})\s")
        self._genre_after = re.compile(rf"\s(?:[^\W\d]{{1,20}}\s)?(?:{_any(table.genres)})\b", re.IGNORECASE)
        each = _any(table.each)
        self._each_before = _ends(rf"\b(?:{each})\b[^.!?:;]{{0,25}}")
        self._each_after = re.compile(rf"\s(?:[^\W\d]{{1,5}}\s)?(?:{each})\b", re.IGNORECASE)
        self._ending = _ends(rf"(?:{_any(table.endings)})")
        self._made_after = re.compile(rf"\s(?:{_any(table.makers_after)})\b", re.IGNORECASE)

    def number(self, text: str) -> int:
        """Return the number that digits or words mean."""
        if text.isdecimal():
            return int(text)
        name = re.sub(r"\s", " ", text.lower())
        if name in self._values:
            return self._values[name]
        return sum(self._values[word] for word in re.split(r"[\s-]", name))

    def rank(self, found: re.Match[str], before: str, after: str) -> int:
        """Return how clearly a number counts the steps, see `_Found`."""
        if self._each_before.search(before) or self._each_after.match(after):
            return 0
        if self._lead.search(before):
            return 2
        unit_ends = self._ending.search(found["unit"])
        if unit_ends or self._made_after.match(after) or self._genre.search(before):
            return 1
        if found["gap"] == "-":
            return int(self._genre_after.match(after) is not None)
        is_made = self._maker.search(before) and not PLACE_FOLLOWS.match(after)
        return int(bool(is_made) or _is_alone(before, after))


def _ends(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{pattern}$", re.IGNORECASE)


def _is_alone(before: str, after: str) -> bool:
    """Return whether a number with its unit is a phrase of its own, as in "A boat. Eight scenes."."""
    begins = BEGUN.search(before)
    if begins is None:
        return False
    mark = begins.group().strip()
    if ALONE.match(after) or WITH_FOLLOWS.match(after):
        return True
    return mark not in ("", ",", "，", "、") and ENDS_COMMA.match(after) is not None


BEGUN = re.compile(rf"{BEGINS}$")
ALONE = re.compile(ENDS)
ENDS_COMMA = re.compile(ENDS_OR_COMMA)
WITH_FOLLOWS = re.compile(rf",?\s(?:{WITH})\b", re.IGNORECASE)
SPACED = tuple(_Pattern(table) for table in words.SPACED)

HAN_NUMBER = rf"\d{{1,4}}|[{''.join(words.HAN)}十百]{{1,5}}"
HAN = re.compile(
    rf"(?:(?P<least>{HAN_NUMBER})\s?[-–~～到至]\s?)?(?P<most>{HAN_NUMBER})\s?[{words.HAN_COUNTERS}]?(?:の)?\s?"
    rf"(?P<unit>{words.HAN_UNITS})(?P<image>{words.HAN_IMAGES})?"
)
HAN_NOT_COUNTED = _ends(rf"(?:{words.HAN_NOT_COUNTED})\s?")
HAN_LEAD = _ends(rf"(?:{words.HAN_LEADS})\s?")
HAN_MADE = _ends(rf"(?:{words.HAN_MAKERS})(?:了|成|出)?\s?")
HAN_AFTER = re.compile(rf"(?:{words.HAN_AFTER})")
HAN_ALONE = re.compile(ENDS_OR_COMMA)
ONLY_STEPS = frozenset(
    ("步", "歩", "格", "ステップ", "コマ", "ページ", "页", "頁", "段階", "画面", "畫面", "シーン")
)
"""Units that count nothing else than steps; others need the name of an image after them."""


def _spaced(pattern: _Pattern, text: str) -> Iterator[_Found]:
    # Most texts name no unit of most languages, and a unit is found much faster than a number with its unit.
    if not pattern.unit.search(text):
        return
    for one in pattern.count.finditer(text):
        most = pattern.number(one["most"])
        least = pattern.number(one["least"] or one["digits"] or one["most"])
        before, after = text[max(0, one.start() - AROUND) : one.start()], text[one.end() : one.end() + AROUND]
        yield _Found(least, most, pattern.rank(one, before, after), not one["step"])


def _han(text: str) -> Iterator[_Found]:
    for one in HAN.finditer(text):
        before, after = text[max(0, one.start() - AROUND) : one.start()], text[one.end() : one.end() + AROUND]
        if HAN_NOT_COUNTED.search(before):
            continue
        most, least = _han_number(one["most"]), _han_number(one["least"] or one["most"])
        certain = one["unit"] in ONLY_STEPS or bool(one["image"])
        begun = BEGUN.search(before) is not None
        alone = begun and HAN_ALONE.match(after) is not None
        rank = int(
            alone or bool(HAN_AFTER.match(after)) or bool(certain and (begun or HAN_MADE.search(before)))
        )
        yield _Found(least, most, 2 if HAN_LEAD.search(before) else rank, bool(one["image"]))


KOREAN_NAMES = {
    form: value for value, name in enumerate(words.KOREAN_NUMBERS.split(), 1) for form in name.split("/")
} | {name: int(value) for name, _, value in (one.partition("=") for one in words.KOREAN_SINO.split())}
KOREAN_NUMBER = r"\d{1,4}|" + "|".join(sorted(KOREAN_NAMES, key=len, reverse=True))
KOREAN = re.compile(
    rf"(?<![가-힣\d])(?:(?P<least>{KOREAN_NUMBER})\s?[-–~～]\s?)?(?P<most>{KOREAN_NUMBER})\s?(?:개의\s)?"
    rf"(?P<unit>{words.KOREAN_UNITS})"
)
KOREAN_AFTER = re.compile(rf"(?:{words.KOREAN_AFTER})")
KOREAN_BEFORE = _ends(rf"(?:{words.KOREAN_BEFORE})(?:을|를)?\s")
KOREAN_NOT_COUNTED = _ends(rf"(?<![가-힣])(?:{words.KOREAN_NOT_COUNTED})\s?")


def _korean(text: str) -> Iterator[_Found]:
    for one in KOREAN.finditer(text):
        before, after = text[max(0, one.start() - AROUND) : one.start()], text[one.end() : one.end() + AROUND]
        if KOREAN_NOT_COUNTED.search(before):
            continue
        most, least = _korean_number(one["most"]), _korean_number(one["least"] or one["most"])
        alone = BEGUN.search(before) is not None and HAN_ALONE.match(after) is not None
        clear = KOREAN_AFTER.match(after) or KOREAN_BEFORE.search(before) or alone
        yield _Found(least, most, int(bool(clear)), one["unit"] in ("장", "그림", "이미지", "사진"))


def _korean_number(text: str) -> int:
    return int(text) if text.isdecimal() else KOREAN_NAMES[text]


def _han_number(text: str) -> int:
    if text.isdecimal():
        return int(text)
    total, one = 0, 0
    for sign in text:
        if sign in "十百":
            total += (one or 1) * (10 if sign == "十" else 100)
            one = 0
        else:
            one = words.HAN[sign]
    return total + one

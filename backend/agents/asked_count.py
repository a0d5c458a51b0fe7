"""Finds how many steps a request asks for: "in 40 steps", "exactly thirteen pictures", 用二十步.

The result decides whether a plan is written in one reply or in parts, how many lines an outline should have,
and whether the planner is asked again. It never rejects a plan. A request without a number is planned in one
reply. A number that means something else ("100 pictures of an exhibition") costs one outline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..types import MAX_STEPS

UNITS = (
    "step|stage|picture|image|panel|page|scene|frame|illustration|drawing|photo|slide|shot|"
    "schritt|bild|szene|seite|étape|etape|dessin|vignette|paso|imagen|escena|página|pagina|viñeta"
)
UNITS_WITHOUT_SPACES = "步|歩|张|張|幅|页|頁|格|枚|ステップ|コマ|ページ|场|場|단계|장"
COUNTERS = "个個"
ONES = "one|two|three|four|five|six|seven|eight|nine"
TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
NAMED: dict[str, int] = {name: number for number, name in enumerate(f"{ONES}|{TEENS}".split("|"), 1)}
NAMED |= {name: 10 * number for number, name in enumerate(TENS.split("|"), 2)}
HAN = {sign: number for number, sign in enumerate("零一二三四五六七八九")} | {"两": 2, "兩": 2}

NAME = rf"(?:{TENS})(?:[\s-](?:{ONES}))?|{TEENS}|{ONES}"
NUMBER = rf"\d{{1,4}}|{NAME}"
BETWEEN = r"\s{1,3}(?:to|or|bis|oder|à|a|ou|o)\s{1,3}"
SPACED = re.compile(
    r"(?P<how>\b(?:exactly|in|into|genau|en|exactement|exactamente)\s{1,3}(?:exactly\s{1,3})?)?\b"
    rf"(?:(?P<digits>\d{{1,4}})\s?[-–—]\s?|(?P<least>{NUMBER}){BETWEEN})?"
    rf"(?P<most>{NUMBER})[\s-](?:[^\W\d]{{1,20}}\s){{0,2}}?(?:{UNITS})(?:s|n|er|es|en)?\b",
    re.IGNORECASE,
)
HAN_NUMBER = rf"\d{{1,4}}|[{''.join(HAN)}十百]{{1,5}}"
UNSPACED = re.compile(
    rf"(?P<how>[用分共以恰]\s?)?(?:(?P<least>{HAN_NUMBER})\s?[-–~～到至]\s?)?"
    rf"(?P<most>{HAN_NUMBER})\s?[{COUNTERS}]?\s?(?:{UNITS_WITHOUT_SPACES})"
)


@dataclass(frozen=True)
class AskedCount:
    """A number of steps, from `least` to `most`.

    `exact`: there is one number, and it clearly counts the steps.
    """

    least: int
    most: int
    exact: bool = False

    @property
    def words(self) -> str:
        """The count as it is inserted into a prompt."""
        return f"{self.most}" if self.least == self.most else f"{self.least} to {self.most}"


def asked_count(text: str) -> AskedCount | None:
    """Return the count that a request names: the first exact one, else the largest; `None` if none."""
    found = [_count(one) for pattern in (SPACED, UNSPACED) for one in pattern.finditer(text[:20_000])]
    counts = [one for one in found if one is not None]
    exact = [one for one in counts if one.exact]
    return exact[0] if exact else max(counts, key=lambda one: one.most, default=None)


def _count(found: re.Match[str]) -> AskedCount | None:
    most = _number(found["most"])
    fewer = found["least"] or found.groupdict().get("digits")
    least = _number(fewer) if fewer else most
    if not 1 <= least <= most <= MAX_STEPS:
        return None
    return AskedCount(least, most, exact=bool(found["how"]) and least == most)


def _number(text: str) -> int:
    """Return the number that digits, English words or Chinese characters mean."""
    if text.isdecimal():
        return int(text)
    if text[0] in HAN or text[0] in "十百":
        return _han_number(text)
    return sum(NAMED[word] for word in re.split(r"[\s-]", text.lower()))


def _han_number(text: str) -> int:
    total, one = 0, 0
    for sign in text:
        if sign in "十百":
            total += (one or 1) * (10 if sign == "十" else 100)
            one = 0
        else:
            one = HAN[sign]
    return total + one

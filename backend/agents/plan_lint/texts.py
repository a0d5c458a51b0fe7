"""Reads texts of plans and requests: quotes, languages, words and numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

MAX_SHOWN = 60
"""Maximum length, in characters, of a text that a message quotes."""
QUOTED = re.compile(
    r"„([^“”\"\n]{1,80})[“”\"]|“([^”\n]{1,80})”|\"([^\"\n]{1,80})\"|«\s?([^»\n]{1,80}?)\s?»|"
    r"「([^」\n]{1,80})」|『([^』\n]{1,80})』|‘([^’\n]{1,80})’|(?<!\w)'([^'\n]{1,80})'(?!\w)"
)
HAN = re.compile(r"[\u4e00-\u9fff]")
WORD = re.compile(r"[^\W\d_]+")


def word_set(table: str) -> frozenset[str]:
    """Return the words of a table, which is a text with spaces between them."""
    return frozenset(table.split())


FUNCTION_WORDS = {
    "en": word_set("the a an of and in on with is are to for at its his her from into that"),
    "es": word_set("el la los las un una de del y en con que es al su para se"),
    "de": word_set("der die das ein eine einen einem und in im mit auf ist zu den dem von"),
}
NUMBERS = {
    name: value
    for value, names in enumerate(
        (
            "two dos zwei 两 二",
            "three tres drei 三",
            "four cuatro vier 四",
            "five cinco fünf 五",
            "six seis sechs 六",
            "seven siete sieben 七",
            "eight ocho acht 八",
            "nine nueve neun 九",
            "ten diez zehn 十",
        ),
        2,
    )
    for name in names.split()
}
NUMBER = rf"(?:[2-9]|10|{'|'.join(name for name in NUMBERS if not HAN.match(name))})"
HAN_NUMBER = rf"(?:[2-9]|10|[{''.join(name for name in NUMBERS if HAN.match(name))}])"


class Quote(NamedTuple):
    """A text in quotes and its place, with the quotes."""

    text: str
    start: int
    end: int


def quotes(text: str) -> Iterator[Quote]:
    """Yield the texts in quotes."""
    for found in QUOTED.finditer(text):
        yield Quote(next(group for group in found.groups() if group is not None), *found.span())


def without_quotes(text: str) -> str:
    """Return a text with each quote replaced by a quote mark."""
    return QUOTED.sub('"', text)


def shown(text: str) -> str:
    """Return a text as a message quotes it: on one line, at most `MAX_SHOWN` characters."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def plain(text: str) -> str:
    """Return a text for comparison: lower case, without punctuation, with single spaces."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", text).split())


def language_of(text: str) -> str | None:
    """Return "en", "es", "de" or "zh", or `None` if that is unclear."""
    if HAN.search(text):
        return "zh"
    words = [word.casefold() for word in WORD.findall(text)]
    counts = {name: sum(word in known for word in words) for name, known in FUNCTION_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if sorted(counts.values())[-2] < counts[best] else None


def number_of(text: str) -> int:
    """Return the number that digits or a word of `NUMBERS` mean."""
    return int(text) if text.isdecimal() else NUMBERS[text.casefold()]


def stem(word: str) -> str:
    """Return the beginning of a noun that its singular and plural share."""
    letters = unicodedata.normalize("NFKD", word.casefold())
    bare = "".join(one for one in letters if not unicodedata.combining(one))
    for ending in ("ies", "en", "er", "es", "s", "e", "n", "y"):
        if bare.endswith(ending) and len(bare) - len(ending) >= 3:
            return bare[: -len(ending)]
    return bare


def mentions(text: str, noun: str) -> bool:
    """Return whether a text has a noun in singular or plural, or a word that begins or ends with it."""
    if HAN.search(noun):
        return noun in text
    root = stem(noun)
    return any(_is_form(stem(word), root) for word in WORD.findall(text))


def _is_form(word: str, root: str) -> bool:
    shorter = root.startswith(word) and len(root) - len(word) <= 2
    return shorter or word.startswith(root) or word.endswith(root)

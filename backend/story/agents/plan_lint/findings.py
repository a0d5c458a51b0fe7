"""What all rules of the plan check use: the plan as they see it, findings, and reading of its texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import Field

from ....core.types import Plan, Request, Step, Text, Value
from .requested import AskedCount, asked_count, asks_for_images

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


MAX_READ = 2_000
"""Maximum length, in characters, of the part of a prompt or a request that is read."""


class Finding(Value):
    """One problem of a plan."""

    step: int | None = Field(description="Number of the step; null if the finding concerns the whole plan.")
    rule: str = Field(description="Id of the rule.")
    message: Text = Field(description="What is wrong, with the words of the plan.")

    @property
    def sentence(self) -> str:
        """The message with the number of its step."""
        return self.message if self.step is None else f"Step {self.step}: {self.message}"


@dataclass(frozen=True)
class Asked:
    """What can be counted in a plan.

    Attributes:
        count: The number of steps, if one is known.
        named: The number is in the request's text, so it may also be the number of images.
        images: The request asks for images.
    """

    count: AskedCount | None
    named: bool
    images: bool

    def distance(self, plan: Plan) -> int:
        """Return by how many steps the plan is too long or too short."""
        if self.count is None:
            return 0
        drawn = sum(bool(step.prompt) for step in plan.steps)
        counts = {len(plan.steps), drawn or len(plan.steps)} if self.named else {len(plan.steps)}
        return min(map(self.count.distance, counts))

    def lacks_images(self, plan: Plan) -> bool:
        """Return whether the plan has no images although the request asks for them."""
        return self.images and not any(step.prompt for step in plan.steps)

    def is_met(self, plan: Plan) -> bool:
        """Return whether the plan is as requested."""
        return not self.distance(plan) and not self.lacks_images(plan)


def asked_in(request: Request, step_count: int = 0) -> Asked:
    """Return what a request asks for. `step_count` replaces the number in its text, unless it is 0."""
    images = asks_for_images(request)
    if step_count:
        return Asked(AskedCount(step_count, step_count, True), False, images)
    count = asked_count(request.text)
    return Asked(count if count is not None and count.is_clear else None, True, images)


@dataclass(frozen=True)
class Checked:
    """A plan that is checked, with the text of its request (empty if it is unknown)."""

    plan: Plan
    request: str
    asked: Asked

    @property
    def drawn(self) -> list[tuple[Step, str]]:
        """The steps with an image, each with the beginning of its prompt, without the style."""
        return [(step, step.prompt[:MAX_READ]) for step in self.plan.steps if step.prompt]


Found = Iterator[tuple[int | None, str]]
"""Numbers of steps (`None` for the whole plan) with messages."""


@dataclass(frozen=True)
class Rule:
    """A rule: its id, what it asks of a plan in one sentence, and the function that finds what breaks it."""

    id: str
    sentence: str
    find: Callable[[Checked], Found]

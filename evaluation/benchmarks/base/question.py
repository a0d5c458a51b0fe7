"""A question to a judge, and how its answer is read.

Decisions. A question asks for one thing and says in which form: yes or no, or a whole number. An answer in
another form, or one that says both, is unread: it is counted, and counts zero, for whatever is guessed from
it would be a figure of the guess. Pictures are named by their files and opened when they are asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .benchmark import BenchmarkData, BenchmarkItem, Values

Part = str | Path
YES_NO = "Answer with one word: yes or no."
NUMBER = "Answer with one whole number from {low} to {high} and nothing else."
DECORATION = re.compile(r"[*_`\"'#>()\[\]{}“”]+")
WORD = re.compile(r"(?:answer\s*[:=]\s*)?(yes|no)(?:[.,;:!]|\s*$|\s+[-–—])", re.IGNORECASE)
CONTRARY = {
    "yes": re.compile(r"\bno(?:[.,;:!]|\s*$)", re.IGNORECASE),
    "no": re.compile(r"\byes(?:[.,;:!]|\s*$)", re.IGNORECASE),
}
"""The other answer further on in the line ("yes, no"), and not a "no" within a sentence."""
POINTS = re.compile(
    r"(?:(?:the |my |final )*(?:answer|score|rating|points)\s*(?:is|[:=])?\s*)?"
    r"(\d{1,3})(?:\.0)?(?:\s*(?:/|out of)\s*(\d{1,3}))?(?:\s*points?)?\s*[.!]?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Scale:
    """What may be answered: a whole number of `low` to `high`; yes and no are 1 and 0."""

    low: int = 0
    high: int = 1

    @property
    def words(self) -> str:
        """How the judge is asked for it."""
        return YES_NO if self.is_yes_no else NUMBER.format(low=self.low, high=self.high)

    @property
    def is_yes_no(self) -> bool:
        return (self.low, self.high) == (0, 1)

    def read(self, answer: str) -> int | None:
        """What an answer says, by its first or last line; None where it cannot be read, or both say
        something else."""
        lines = [line for raw in answer.splitlines() if (line := DECORATION.sub("", raw).strip())]
        found = {value for line in lines[:1] + lines[-1:] if (value := self._read(line)) is not None}
        return found.pop() if len(found) == 1 else None

    def _read(self, line: str) -> int | None:
        if self.is_yes_no:
            word = WORD.match(line)
            if word is None or CONTRARY[word[1].lower()].search(line, word.end()):
                return None
            return int(word[1].lower() == "yes")
        number = POINTS.fullmatch(line)
        if number is None or (number[2] is not None and int(number[2]) != self.high):
            return None
        return int(number[1]) if self.low <= int(number[1]) <= self.high else None


YES_OR_NO = Scale()
OF_FIVE = Scale(1, 5)
OF_TEN = Scale(0, 10)


@dataclass(frozen=True)
class JudgeQuestion:
    """One thing that is asked about an item: `key` names it within the item. `swapped` are the parts with the
    two compared pictures in the other order, empty where none are compared."""

    key: str
    parts: tuple[Part, ...]
    scale: Scale = YES_OR_NO
    swapped: tuple[Part, ...] = ()


Answers = Mapping[str, float | None]
"""Answers by the questions' keys, None where they are unread."""


class OwnQuestions(Protocol):
    """The questions of a benchmark. Both methods raise SettingsError for data or a submission that cannot be
    used."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        """What is asked about an item of the submission, which has an answer."""
        ...

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        """The item's values, 0 to 1, by metric; what is unread counts zero."""
        ...


def share(answers: Answers, keys: Iterable[str]) -> float | None:
    """The mean of the answers of 0 to 1, unread ones being 0; None where there is no such question."""
    found = [answers[key] or 0.0 for key in keys]
    return sum(found) / len(found) if found else None

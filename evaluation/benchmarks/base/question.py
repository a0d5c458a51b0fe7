"""Questions to a judge and how their answers are read.

Each question asks for one thing and states the answer format: yes or no, or a whole number. An answer in
another format, or with two contradicting answers, is unread. It is counted and scores zero, because guessing
a value would measure the guess. Images are given as file paths and opened when the question is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ....backend.checklist import read_yes_no
from .benchmark import BenchmarkData, BenchmarkItem, Values

Part = str | Path
QUESTIONS_VERSION = 2
"""Version of the own questions. Increase it when one changes, so that scores of versions are never mixed."""
YES_NO = "Answer with one word: yes or no."
NUMBER = "Answer with one whole number from {low} to {high} and nothing else."
DECORATION = re.compile(r"[*_`\"'#>()\[\]{}“”]+")
POINTS = re.compile(
    r"(?:(?:the |my |final )*(?:answer|score|rating|points)\s*(?:is|[:=])?\s*)?"
    r"(\d{1,3})(?:\.0)?(?:\s*(?:/|out of)\s*(\d{1,3}))?(?:\s*points?)?\s*[.!]?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Scale:
    """Range of allowed answers: whole numbers from `low` to `high`. For yes and no these are 1 and 0."""

    low: int = 0
    high: int = 1

    @property
    def words(self) -> str:
        """Instruction that asks the judge for this format."""
        return YES_NO if self.is_yes_no else NUMBER.format(low=self.low, high=self.high)

    @property
    def is_yes_no(self) -> bool:
        """Whether the answer is yes or no."""
        return (self.low, self.high) == (0, 1)

    def read(self, answer: str) -> int | None:
        """Read an answer from its first or last line.

        Returns:
            The value. `None` if no line can be read, or if both lines give different values.
        """
        if self.is_yes_no:
            said = read_yes_no(answer)
            return None if said is None else int(said)
        lines = [line for raw in answer.splitlines() if (line := DECORATION.sub("", raw).strip())]
        found = {value for line in lines[:1] + lines[-1:] if (value := self._read(line)) is not None}
        return found.pop() if len(found) == 1 else None

    def _read(self, line: str) -> int | None:
        number = POINTS.fullmatch(line)
        if number is None or (number[2] is not None and int(number[2]) != self.high):
            return None
        return int(number[1]) if self.low <= int(number[1]) <= self.high else None


YES_OR_NO = Scale()
OF_FIVE = Scale(1, 5)
OF_TEN = Scale(0, 10)


@dataclass(frozen=True)
class JudgeQuestion:
    """One question about an item.

    Attributes:
        key: Name of the question within the item.
        parts: Texts and images of the question.
        scale: Allowed answers.
        swapped: The parts with the two compared images in reverse order; empty if none are compared.
    """

    key: str
    parts: tuple[Part, ...]
    scale: Scale = YES_OR_NO
    swapped: tuple[Part, ...] = ()


Answers = Mapping[str, float | None]
"""Answers by key of the question; `None` if unread."""


class OwnQuestions(Protocol):
    """The own questions of a benchmark. Methods raise `SettingsError` for unusable data or submissions."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        """Return the questions about an item that has an answer in the submission."""
        ...

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        """Return the item's values by metric, from 0 to 1. Unread answers count as zero."""
        ...


def share(answers: Answers, keys: Iterable[str]) -> float | None:
    """Return the mean of the answers in `keys`; unread answers count as 0. `None` if `keys` is empty."""
    found = [answers[key] or 0.0 for key in keys]
    return sum(found) / len(found) if found else None

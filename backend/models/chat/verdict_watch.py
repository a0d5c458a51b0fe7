"""Watches a critic's answer while it is decoded: where its verdict is, whether it is final, and P(success).

An early stop may only save time. A model that decodes freely may correct itself after its answer, and then
the reply is not a verdict, so its verdict is final only at the end. A reply that is constrained to the
grammar of verdicts contains exactly one answer, so its verdict is final once it is complete. The parser of
whole replies (answers/reading.py) decides what a verdict is; it is called with the text so far.

P(success) is the softmax over the tokens that can start True or False. It is measured wherever the word of a
verdict may start, and reported for the verdict that is parsed in the end. This is the rule of Qwen3-Reranker,
sigmoid(logit_yes - logit_no), extended to several spellings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.answers.reading import find_verdict
from ...core.errors import AnswerError
from ...core.seams.chat_model import ReplySettings
from ...core.types import MAX_TEXT

AT_VERDICT = re.compile(r"success[\"']?\s{0,30}:\s{0,30}[\"']?\s{0,30}(?=[tf])", re.IGNORECASE)
FIRST_LETTER = re.compile("[tfTF]")
CLOSED_TRUE = re.compile(r"true\s{0,30}[\"']?\s{0,30}[,}]", re.IGNORECASE)
TAIL = 220
MAX_KEY = 120
"""Maximum length, in characters, of a verdict's beginning, or of its key, before the current piece."""
MAX_LOOKS = 20
"""Maximum number of parser calls during a reply. A reply with more verdicts is decoded to its end."""
MAX_MEASURED = 1000
TRUE_SPELLINGS = ("True", "true", " True", " true")
FALSE_SPELLINGS = ("False", "false", " False", " false")
YES_SPELLINGS = ("Yes", "yes", " Yes", " yes")
NO_SPELLINGS = ("No", "no", " No", " no")
MARKS = " \"'*\n\t"
"""Characters that may be around the word of an answer."""


class YesNoWatch:
    """Measures P(yes) at the first word of a reply. What follows may take it back: `Yes/No`."""

    settled = False

    def __init__(self) -> None:
        self._begun = False
        self._probability: float | None = None

    def add(self, piece: str) -> bool:
        """Append a piece, and return whether the first word starts in it."""
        if self._begun or not piece.strip(MARKS):
            return False
        self._begun = True
        return True

    def stop(self) -> int:
        """Keep the whole last piece."""
        return 0

    def measured(self, probability: float | None) -> None:
        """Store P(yes)."""
        self._probability = probability

    def probability(self) -> float | None:
        """Return P(yes); `None` if it was not measured."""
        return self._probability


class VerdictWatch:
    """Follows a reply piece by piece.

    `settled` becomes true once a reply that is constrained to the grammar of verdicts has the verdict true.
    """

    def __init__(self, thinking: bool | None = None, held: bool = False) -> None:
        """Start a reply.

        Args:
            thinking: Whether the prompt ends inside an opened <think>; `None` if it is unknown (of a server).
            held: Whether the reply is constrained to the grammar of verdicts.
        """
        self.settled = False
        self._held = held
        self._tail = "<think>" if thinking else ""
        self._parts = [self._tail]
        self._length = len(self._tail)
        self._word = -1
        self._measured: dict[int, float | None] = {}
        self._looks = 0
        self._settled_at = 0

    def add(self, piece: str) -> bool:
        """Append a piece.

        Returns:
            Whether a word starts in the piece that may be the verdict's. Its P(success) can then be passed to
            `measured`.
        """
        tail = self._tail + piece
        start, new = self._length - len(self._tail), len(self._tail)
        self._length += len(piece)
        self._parts.append(piece)
        self._tail = tail[-TAIL:]
        if self.settled or self._length > MAX_TEXT or "success" not in tail.lower():
            return False
        words: list[int] = []
        if FIRST_LETTER.search(piece):
            found = (one.end() for one in AT_VERDICT.finditer(tail, max(0, new - MAX_KEY)))
            words = [word for word in found if word >= new]
        for word in (self._word - start, *words) if self._held else ():
            closed = CLOSED_TRUE.match(tail, word) if word >= 0 else None
            if closed is not None and closed.end() > new and self._looks < MAX_LOOKS and not self.settled:
                self._look(start + word, start + closed.end())
        self._word = start + words[-1] if words else self._word
        return bool(words)

    def stop(self) -> int:
        """Remove the text after the final verdict, which is part of the last piece, and return its length."""
        surplus = self._length - self._settled_at
        self._parts, self._length = ["".join(self._parts)[: self._settled_at]], self._settled_at
        return surplus

    def measured(self, probability: float | None) -> None:
        """Store P(success) at the last word that `add` reported."""
        if len(self._measured) < MAX_MEASURED:
            self._measured[self._word] = probability

    def probability(self) -> float | None:
        """Return P(success) of the verdict in the reply so far; `None` if it was not measured."""
        if not any(one is not None for one in self._measured.values()):
            return None
        try:
            _, _, at = find_verdict("".join(self._parts))
        except AnswerError:
            return None
        return self._measured.get(at)

    def _look(self, word: int, end: int) -> None:
        """Check whether the verdict whose word starts here is final where it is complete."""
        self._looks += 1
        self._settled_at = end
        self.settled = is_settled("".join(self._parts)[:end], word)


def is_settled(text: str, word: int) -> bool:
    """Return whether a constrained reply with this beginning has the verdict true at this place."""
    try:
        verdict, found, at = find_verdict(text)
    except AnswerError:
        return False
    return bool(verdict.success) and at == word and found.strict


AnswerWatch = YesNoWatch | VerdictWatch


def watch_of(settings: ReplySettings, held: bool, thinking: bool | None = None) -> AnswerWatch | None:
    """Return what follows a reply with these settings; `held` and `thinking` as in `VerdictWatch`."""
    if settings.watch_yes_no:
        return YesNoWatch()
    return VerdictWatch(thinking, held) if settings.watch_verdict else None


def verdict_tokens(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first tokens of the spellings of True and of False.

    A token that can start both is in neither.
    """
    return _first_tokens(tokenizer, TRUE_SPELLINGS, FALSE_SPELLINGS)


def yes_no_tokens(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first tokens of the spellings of yes and of no, as `verdict_tokens`."""
    return _first_tokens(tokenizer, YES_SPELLINGS, NO_SPELLINGS)


def _first_tokens(tokenizer: Any, *words: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sides = []
    for spellings in words:
        encoded = (tokenizer.encode(spelling, add_special_tokens=False) for spelling in spellings)
        sides.append({tokens[0] for tokens in encoded if tokens})
    both = sides[0] & sides[1]
    return tuple(sorted(sides[0] - both)), tuple(sorted(sides[1] - both))


def probability_of_true(true_logits: Iterable[float], false_logits: Iterable[float]) -> float | None:
    """Return the softmax mass of the True side (0..1) from logits; `None` if a side is empty."""
    true_mass, false_mass = _log_sum_exp(true_logits), _log_sum_exp(false_logits)
    if true_mass is None or false_mass is None:
        return None
    difference = max(-700.0, min(700.0, false_mass - true_mass))
    return 1.0 / (1.0 + math.exp(difference))


def _log_sum_exp(values: Iterable[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return None
    highest = max(finite)
    return highest + math.log(sum(math.exp(value - highest) for value in finite))

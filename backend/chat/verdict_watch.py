"""Watches a critic's answer as it is written: where its verdict stands, whether that is settled, and how
probable True was.

An early stop may only save time. A model that decodes freely may correct itself after its answer, and then
the whole reply is not a verdict, so it is settled only at its end. A reply that is held to the grammar of
verdicts contains exactly one answer, so it is settled where its verdict is closed. The
reader of whole replies (answers/reading.py) decides what a verdict is: it is asked about the text so far.

P(True) is the softmax over the tokens that can begin True or False, measured wherever a verdict's word may
begin and reported for the one that is read in the end; the same rule as Qwen3-Reranker's,
sigmoid(logit_yes - logit_no), extended to spellings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from ..answers.reading import find_verdict
from ..errors import AnswerError
from ..types import MAX_TEXT

AT_VERDICT = re.compile(r"success[\"']?\s{0,30}:\s{0,30}[\"']?\s{0,30}(?=[tf])", re.IGNORECASE)
FIRST_LETTER = re.compile("[tfTF]")
CLOSED_TRUE = re.compile(r"true\s{0,30}[\"']?\s{0,30}[,}]", re.IGNORECASE)
TAIL = 220
MAX_KEY = 120
"""Characters before a piece in which a verdict, or its key alone, may begin that is completed in it."""
MAX_LOOKS = 20
"""How often the reader is asked about a reply that goes on; one that names more verdicts than that is read to
its end."""
MAX_MEASURED = 1000
TRUE_SPELLINGS = ("True", "true", " True", " true")
FALSE_SPELLINGS = ("False", "false", " False", " false")


class TokenEncoder(Protocol):
    """The part of a tokenizer that is needed here."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]: ...


class VerdictWatch:
    """Follows a reply piece by piece. `settled` is True once a reply that is held to the grammar of verdicts
    says True."""

    def __init__(self, thinking: bool | None = None, held: bool = False) -> None:
        """Begin a reply.

        Args:
            thinking: Whether the prompt ends inside an opened <think>; None if unknown (a server's).
            held: Whether the reply is held to the grammar of verdicts.
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
        """Append a piece; True if a word begins in it that may be the verdict's, whose P(True) can then be
        given to `measured`."""
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
        """Take back what stands after the point at which the verdict was settled, all of it in the last
        piece; its length."""
        surplus = self._length - self._settled_at
        self._parts, self._length = ["".join(self._parts)[: self._settled_at]], self._settled_at
        return surplus

    def measured(self, probability: float | None) -> None:
        """P(True) where the last word began that `add` reported."""
        if len(self._measured) < MAX_MEASURED:
            self._measured[self._word] = probability

    def probability(self) -> float | None:
        """P(True) at the verdict that is read from the reply so far; None if there is none, or it was not
        measured."""
        if not any(one is not None for one in self._measured.values()):
            return None
        try:
            _, _, at = find_verdict("".join(self._parts))
        except AnswerError:
            return None
        return self._measured.get(at)

    def _look(self, word: int, end: int) -> None:
        """Ask whether the verdict whose word begins here is settled where it is closed."""
        self._looks += 1
        self._settled_at = end
        self.settled = is_settled("".join(self._parts)[:end], word)


def is_settled(text: str, word: int) -> bool:
    """Whether a reply in the grammar of verdicts that begins like this says True with the word at this
    place."""
    try:
        verdict, found, at = find_verdict(text)
    except AnswerError:
        return False
    return bool(verdict.success) and at == word and found.strict


def verdict_tokens(tokenizer: TokenEncoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First tokens of the spellings of True and of False; a token that can begin both belongs to neither."""
    sides = []
    for spellings in (TRUE_SPELLINGS, FALSE_SPELLINGS):
        encoded = (tokenizer.encode(spelling, add_special_tokens=False) for spelling in spellings)
        sides.append({tokens[0] for tokens in encoded if tokens})
    both = sides[0] & sides[1]
    return tuple(sorted(sides[0] - both)), tuple(sorted(sides[1] - both))


def probability_of_true(true_logits: Iterable[float], false_logits: Iterable[float]) -> float | None:
    """Softmax mass of the True side (0..1) from logits or log-probabilities; None unless both sides have
    one."""
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

"""Watches a critic's answer as it is written: where the verdict stands, what it is, and how probable True was.

Decision: the verdict is looked for in the text and not by token ids, so that one rule serves every tokenizer and server.
P(True) is the softmax over the tokens that can begin True or False, read where the verdict's word begins; the same
rule as Qwen3-Reranker's, sigmoid(logit_yes - logit_no), extended to spellings. Verdicts in the reasoning do not count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

AT_VERDICT = re.compile(
    r"[{,]\s*[\"']?(?:previous_step_success|success)[\"']?\s*:\s*[\"']?\s*(?=[A-Za-z])", re.IGNORECASE
)
LONGEST_PREFIX = 120
TRUE_SPELLINGS = ("True", "true", " True", " true")
FALSE_SPELLINGS = ("False", "false", " False", " false")


class Encoder(Protocol):
    """The part of a tokenizer that is needed here."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]: ...


class VerdictWatch:
    """Follows a reply piece by piece. `verdict` is None until the word True or False is complete."""

    def __init__(self, thinking: bool = False) -> None:
        """`thinking`: the prompt ends inside an opened <think>."""
        self.text = "<think>" if thinking else ""
        self.verdict: bool | None = None
        self._answer_from: int | None = None
        self._word_at: int | None = None
        self._done = False

    def add(self, piece: str) -> bool:
        """Append a piece; True if the verdict's word begins in it."""
        before = len(self.text)
        self.text += piece
        if self._done:
            return False
        if self._word_at is None:
            found = self._verdict_after(before)
            if found is None:
                return False
            self._word_at = found.end()
        word = self.text[self._word_at : self._word_at + 5].lower()
        if word.startswith("true") or word.startswith("false"):
            self.verdict, self._done = word.startswith("true"), True
        elif not "true".startswith(word) and not "false".startswith(word):
            self._done = True
        return self._word_at >= before

    def _verdict_after(self, before: int) -> re.Match[str] | None:
        """A verdict that ends in the text after `before`; none while the reasoning is not closed."""
        start = self._answer_from
        if start is None:
            start = 0
            if "<think>" in self.text:
                closed = self.text.find("</think>")
                if closed < 0:
                    return None
                start = self._answer_from = closed + len("</think>")
        return AT_VERDICT.search(self.text, max(start, before - LONGEST_PREFIX))


def verdict_tokens(tokenizer: Encoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First tokens of the spellings of True and of False; a token that can begin both belongs to neither."""
    sides = []
    for spellings in (TRUE_SPELLINGS, FALSE_SPELLINGS):
        encoded = (tokenizer.encode(spelling, add_special_tokens=False) for spelling in spellings)
        sides.append({tokens[0] for tokens in encoded if tokens})
    both = sides[0] & sides[1]
    return tuple(sorted(sides[0] - both)), tuple(sorted(sides[1] - both))


def probability_of_true(true_logits: Iterable[float], false_logits: Iterable[float]) -> float | None:
    """Softmax mass of the True side (0..1) from logits or log-probabilities; None unless both sides have one."""
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

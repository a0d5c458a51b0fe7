"""Guesses how an answer goes on, from what the prompt and the answer have said before.

Decision: prompt lookup (apoorvumang/prompt-lookup-decoding): a critic repeats the prompt that it refines and
the form that it was told, so the likeliest next words are those that followed the last few words before. A
guess is read together with the token that is certain, in one pass that costs little more than a pass for one,
and what was guessed wrong is forgotten. The guess follows from the question and the answer alone, never from
earlier questions, so that the same question is read in the same pieces whatever was asked before it.
"""

from __future__ import annotations

from collections.abc import Sequence

SHORTEST = 2
"""Tokens that have to be the same for a guess."""
RECENT = 32
"""Places that are looked at, so that a text of one word over and over costs no more than another."""


class PromptLookup:
    """Follows an answer token by token. `limit`: tokens of a guess at most."""

    def __init__(self, ids: Sequence[int], limit: int) -> None:
        self._limit = limit
        self._ids: list[int] = []
        self._ends: dict[tuple[int, int], list[int]] = {}
        """Where every pair of tokens ended before, but for the very last one."""
        for token in ids:
            self.add(token)

    def add(self, token: int) -> None:
        """Go on with this token."""
        if len(self._ids) >= SHORTEST:
            self._ends.setdefault((self._ids[-2], self._ids[-1]), []).append(len(self._ids) - 1)
        self._ids.append(token)

    def guess(self) -> list[int]:
        """Tokens that may come next: those after the longest equal stretch, the latest of equal ones, as many
        as were equal (a longer stretch of repeated text is likelier to go on). None where fewer than two
        tokens are equal."""
        if len(self._ids) < SHORTEST:
            return []
        length, after = 0, 0
        for end in reversed(self._ends.get((self._ids[-2], self._ids[-1]), [])[-RECENT:]):
            equal = self._equal(end)
            if equal > length:
                length, after = equal, end + 1
            if length >= self._limit:
                break
        return self._ids[after : after + min(length, self._limit)] if length else []

    def _equal(self, end: int) -> int:
        """How many tokens up to this one are the same as the last ones, up to the limit."""
        ids, equal = self._ids, SHORTEST
        while equal < self._limit and equal <= end and ids[end - equal] == ids[-1 - equal]:
            equal += 1
        return equal

"""Prompt lookup decoding (apoorvumang/prompt-lookup-decoding): drafts of how an answer goes on, copied from
what followed the same tokens before.

Decision: a critic repeats the prompt that it refines and the form it was given, so tokens that followed the
last few before are likely to follow again. A draft is read together with the token that is certain, in one
pass that costs little more than a pass for one, and rejected tokens are cut from the cache. A draft follows
from the question and the answer alone, so the same question is read in the same pieces whatever was asked
before it.
"""

from __future__ import annotations

from collections.abc import Sequence

MIN_MATCH = 2
"""Tokens that have to be the same for a draft."""
RECENT = 32
"""Matches that are looked at, so that a text of one word over and over costs no more than another."""


class PromptLookup:
    """Follows an answer token by token. `limit`: tokens of a draft at most."""

    def __init__(self, ids: Sequence[int], limit: int) -> None:
        self._limit = limit
        self._ids: list[int] = []
        self._ends: dict[tuple[int, int], list[int]] = {}
        """Where every pair of tokens ended before, but for the very last one."""
        for token in ids:
            self.add(token)

    def add(self, token: int) -> None:
        """Go on with this token."""
        if len(self._ids) >= MIN_MATCH:
            self._ends.setdefault((self._ids[-2], self._ids[-1]), []).append(len(self._ids) - 1)
        self._ids.append(token)

    def draft(self) -> list[int]:
        """Tokens that may come next: those after the longest match, the latest of equal ones, as many as
        matched (a longer repeat is likelier to go on). Empty where fewer than two tokens match."""
        if len(self._ids) < MIN_MATCH:
            return []
        length, after = 0, 0
        for end in reversed(self._ends.get((self._ids[-2], self._ids[-1]), [])[-RECENT:]):
            matched = self._matched(end)
            if matched > length:
                length, after = matched, end + 1
            if length >= self._limit:
                break
        return self._ids[after : after + min(length, self._limit)] if length else []

    def _matched(self, end: int) -> int:
        """How many tokens up to this one are the same as the last ones, up to the limit."""
        ids, matched = self._ids, MIN_MATCH
        while matched < self._limit and matched <= end and ids[end - matched] == ids[-1 - matched]:
            matched += 1
        return matched

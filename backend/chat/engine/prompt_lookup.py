"""Prompt lookup decoding (apoorvumang/prompt-lookup-decoding): drafts copied from earlier occurrences.

A critic repeats the prompt that it refines and its answer format, so the tokens that followed the last few
tokens earlier are likely to follow again. A draft is processed together with the certain token, in one pass
that costs little more than a pass for one token. Rejected tokens are cropped from the cache. A draft depends
only on the prompt and the answer, so a prompt is always processed in the same pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

MIN_MATCH = 2
"""Number of equal tokens that a draft requires."""
RECENT = 32
"""Number of matches to check, so that a repetitive text does not cost more than another."""


class PromptLookup:
    """Follows an answer token by token. `limit` is the maximum number of tokens in a draft."""

    def __init__(self, ids: Sequence[int], limit: int) -> None:
        self._limit = limit
        self._ids: list[int] = []
        self._ends: dict[tuple[int, int], list[int]] = {}
        """Positions where every pair of tokens ended before, except the last pair."""
        for token in ids:
            self.add(token)

    def add(self, token: int) -> None:
        """Append a token."""
        if len(self._ids) >= MIN_MATCH:
            self._ends.setdefault((self._ids[-2], self._ids[-1]), []).append(len(self._ids) - 1)
        self._ids.append(token)

    def draft(self) -> list[int]:
        """Return the tokens that may come next; empty if fewer than two tokens match.

        These are the tokens after the longest match, and of equally long matches after the latest. Their
        number is that of the matching tokens, since a longer repetition is more likely to continue.
        """
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
        """Return how many tokens up to this position equal the last ones, up to the limit."""
        ids, matched = self._ids, MIN_MATCH
        while matched < self._limit and matched <= end and ids[end - matched] == ids[-1 - matched]:
            matched += 1
        return matched

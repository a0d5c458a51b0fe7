"""How many of the last redraws or judgements failed, and when that is too many to go on.

During a training, a few failures are not enough to decide. At its end they are all that is known: a short run
in which every redraw failed has learned nothing and must not look complete.
"""

from __future__ import annotations

from collections import deque

WINDOW = 512
MIN_SEEN = 32


class Failures:
    """Counts the failures among the last `WINDOW` of what is called `what` in messages; more than the share
    `most` of them are too many."""

    def __init__(self, what: str, most: float) -> None:
        self._what, self._most = what, most
        self._last: deque[bool] = deque(maxlen=WINDOW)
        self._fault = ""

    def add(self, failed: bool, fault: str = "") -> None:
        """Count one, with the reason if it failed."""
        self._last.append(failed)
        self._fault = fault if failed else self._fault

    def problem(self, at_end: bool = False) -> str | None:
        """Why they are too many, else None; fewer than `MIN_SEEN` are judged by `at_end` alone."""
        failed, seen = sum(self._last), len(self._last)
        if (seen < MIN_SEEN and not at_end) or failed / max(1, seen) <= self._most:
            return None
        return (
            f"{failed} of the last {seen} {self._what} failed (more than "
            f"{self._most:.0%}), the last one because: {self._fault}"
        )

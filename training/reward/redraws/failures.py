"""Counts failures among recent redraws or judgments, and decides when there are too many to continue.

During a training, a few failures are not enough to decide. At its end they are: a short run in which every
redraw failed has learned nothing and must not appear complete.
"""

from __future__ import annotations

from collections import deque

WINDOW = 512
MIN_SEEN = 32


class Failures:
    """Counts the failures among the last `WINDOW` calls, which messages call `what`.

    More than the share `most` of failures is too many.
    """

    def __init__(self, what: str, most: float) -> None:
        self._what, self._most = what, most
        self._last: deque[bool] = deque(maxlen=WINDOW)
        self._fault = ""

    def add(self, failed: bool, fault: str = "") -> None:
        """Count a call, with the reason if it failed."""
        self._last.append(failed)
        self._fault = fault if failed else self._fault

    def problem(self, at_end: bool = False) -> str | None:
        """Return why there are too many failures, or None; under `MIN_SEEN` calls count only `at_end`."""
        failed, seen = sum(self._last), len(self._last)
        if (seen < MIN_SEEN and not at_end) or failed / max(1, seen) <= self._most:
            return None
        return (
            f"{failed} of the last {seen} {self._what} failed, more than the allowed "
            f"{self._most:.0%}; the last error: {self._fault}"
        )

"""When a server is asked again: one policy for agents, judges and image services.

- 429 and 503 (busy): after the time that Retry-After names (seconds or a date), without one after a backoff.
- 408, 504 (late), other 5xx and connection errors (down): after a backoff that doubles, with jitter, because
  clients that wait equally long come back together.
- Other 4xx, and 429 for a used-up quota: never; the answer would be the same.

No wait is longer than MAX_ASKED_FOR or than the time left to the request: a later answer is useless, so the
request fails at once and says when the server would have room. `call.py` applies this to one server,
`balanced.py` to several.
"""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal

from ..errors import InterleaveError

if TYPE_CHECKING:
    from tenacity import RetryCallState

MAX_ATTEMPTS = 5
"""Requests to one server that is down, the first one included."""
MAX_BUSY_ATTEMPTS = 10
"""Requests to one server that is busy."""
FIRST_PAUSE, MAX_PAUSE = 0.25, 8.0
"""Seconds of backoff: after the first request, and at most."""
MAX_ASKED_FOR = 900.0
"""Longest wait in seconds that a server may ask for."""
BUSY, LATE = frozenset({429, 503}), frozenset({408, 504})
DOWN = frozenset({*range(500, 600)} - {501, 505}) - BUSY - LATE
"""All 5xx but those that speak of the request and not of the moment."""
OUT_OF_CREDIT = "insufficient_quota"
"""Error code of hosted models for a used-up quota, where a retry cannot help."""

Moment = Literal["busy", "late", "down"]


class Retryable(Exception):
    """A failure of the connection or of the server's moment, not of the request.

    `error` is raised if it stays; `after` is the wait in seconds that the server asked for.
    """

    def __init__(self, error: InterleaveError, moment: Moment = "down", after: float | None = None) -> None:
        super().__init__(error.message)
        self.error, self.moment, self.after = error, moment, after


def moment_of(status: int, said: str) -> Moment | None:
    """Return what a status says of the server's moment; None if asking again would not help."""
    if OUT_OF_CREDIT in said:
        return None
    if status in BUSY:
        return "busy"
    if status in LATE:
        return "late"
    return "down" if status in DOWN else None


def retry_after(value: str | None) -> float | None:
    """Return the seconds that a Retry-After header (a number or a date) asks for; None for anything else."""
    if not value or len(value) > 100:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def too_late(message: str, seconds: float) -> str:
    """Return the message of a server whose room comes `seconds` from now, later than the request can wait."""
    earliest = f"room in {math.ceil(seconds):.9g} s at the earliest, later than this request can wait."
    return f"{message.rstrip('.')}; {earliest}"


def pause(state: RetryCallState) -> float:
    """Return the seconds before the next request, for tenacity."""
    from tenacity import wait_exponential_jitter

    backoff = wait_exponential_jitter(FIRST_PAUSE, MAX_PAUSE, jitter=FIRST_PAUSE)(state)
    return max(backoff, _fault(state).after or 0.0)


def attempts_are_used_up(state: RetryCallState) -> bool:
    """Return whether the server was asked often enough, for tenacity."""
    return state.attempt_number >= (MAX_BUSY_ATTEMPTS if _fault(state).moment == "busy" else MAX_ATTEMPTS)


def _fault(state: RetryCallState) -> Retryable:
    fault = state.outcome.exception() if state.outcome else None
    assert isinstance(fault, Retryable), "nothing else is asked again"
    return fault

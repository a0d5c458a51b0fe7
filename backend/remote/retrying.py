"""When a request to a server is retried: one policy for agents, judges and image services.

- 429 and 503 (busy): after the time in Retry-After (seconds or a date), or else after a backoff.
- 408, 504 (timeout), other 5xx and connection errors (down): after a backoff that doubles, with jitter,
  because clients with equal pauses return together.
- Other 4xx, and 429 for an exhausted quota: never, because the answer would be the same.

No wait is longer than MAX_ASKED_FOR or the remaining time of the request. A later answer is useless, so the
request fails at once and reports when the server would be free. `call.py` applies this to one server,
`balanced.py` to several.
"""

from __future__ import annotations

import math
import re
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal

from ..errors import InterleaveError

if TYPE_CHECKING:
    from tenacity import RetryCallState

MAX_ATTEMPTS = 5
"""Maximum requests to a server that is down, including the first."""
MAX_BUSY_ATTEMPTS = 10
"""Maximum requests to a server that is busy."""
FIRST_PAUSE, MAX_PAUSE = 0.25, 8.0
"""Backoff in seconds: after the first request, and maximum."""
MAX_ASKED_FOR = 900.0
"""Maximum wait in seconds that a server may ask for."""
BUSY, LATE = frozenset({429, 503}), frozenset({408, 504})
DOWN = frozenset({*range(500, 600)} - {501, 505}) - BUSY - LATE
"""All 5xx statuses except those caused by the request itself."""
OUT_OF_CREDIT = "insufficient_quota"
"""Error code of hosted models for an exhausted quota. A retry cannot help."""

UNKNOWN_MODEL = re.compile(
    r"model.{0,250}(?:not found|not exist|no longer|shut ?down|retired|deprecated)|model_not_found",
    re.IGNORECASE | re.DOTALL,
)
"""In the answers of servers that do not have the requested model."""

Moment = Literal["busy", "late", "down"]


class Retryable(Exception):
    """A failure of the connection or the server's state, not of the request.

    Attributes:
        error: Error to raise if it persists.
        moment: Kind of the failure.
        after: Wait in seconds that the server asked for.
    """

    def __init__(self, error: InterleaveError, moment: Moment = "down", after: float | None = None) -> None:
        super().__init__(error.message)
        self.error, self.moment, self.after = error, moment, after


def unknown_model(status: int, said: str, url: str) -> str:
    """Return the hint for an answer that the requested model does not exist, or an empty string."""
    if status not in (400, 404, 410) or UNKNOWN_MODEL.search(said) is None:
        return ""
    return (
        "This server does not have the model, or no longer: hosted models are renamed and shut down. Choose "
        f"a model that {url}/models lists."
    )


def moment_of(status: int, said: str) -> Moment | None:
    """Return the kind of failure that a status reports, or None if a retry would not help."""
    if OUT_OF_CREDIT in said:
        return None
    if status in BUSY:
        return "busy"
    if status in LATE:
        return "late"
    return "down" if status in DOWN else None


def retry_after(value: str | None) -> float | None:
    """Return the seconds in a Retry-After header (a number or a date), or None if it is invalid."""
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
    """Return the error message of a server that is busy for longer than the request can wait."""
    earliest = f"it is busy for at least {math.ceil(seconds):.9g} s, longer than this request can wait."
    return f"{message.rstrip('.')}; {earliest}"


def pause(state: RetryCallState) -> float:
    """Return the seconds before the next request, for tenacity."""
    from tenacity import wait_exponential_jitter

    backoff = wait_exponential_jitter(FIRST_PAUSE, MAX_PAUSE, jitter=FIRST_PAUSE)(state)
    return max(backoff, _fault(state).after or 0.0)


def attempts_are_used_up(state: RetryCallState) -> bool:
    """Return whether all attempts are used up, for tenacity."""
    return state.attempt_number >= (MAX_BUSY_ATTEMPTS if _fault(state).moment == "busy" else MAX_ATTEMPTS)


def _fault(state: RetryCallState) -> Retryable:
    fault = state.outcome.exception() if state.outcome else None
    assert isinstance(fault, Retryable), "only Retryable is retried"
    return fault

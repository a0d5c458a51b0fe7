"""A request to another machine with a deadline and retries, which the caller can cancel at any time.

A blocked read cannot check for cancellation, and a timeout per read does not limit a server that sends a byte
now and then. The request therefore runs in a thread of its own. The calling thread listens for arriving text
and, several times a second, checks the clock and calls `on_text` (with an empty text), which may raise. The
end of the wait closes the connection, so that the thread ends and the server stops working. The thread is a
daemon: a thread that hangs where nothing can be closed (DNS lookup) does not keep the process alive.

One policy for agents, judges and image services decides when a request is retried:

- 429 and 503 (busy): after the time in Retry-After (seconds or a date), or else after a backoff.
- 408, 504 (timeout), other 5xx and connection errors (down): after a backoff that doubles, with jitter,
  because clients with equal pauses return together.
- Other 4xx, and 429 for an exhausted quota: never, because the answer would be the same.

No wait is longer than MAX_ASKED_FOR or the remaining time of the request. A later answer is useless, so the
request fails at once and reports when the server would be free. balanced.py applies this to several servers.
"""

from __future__ import annotations

import math
import re
import socket
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from ..errors import Cancelled, InterleaveError, SettingsError

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
HEARTBEAT_SECONDS = 0.1
OnText = Callable[[str], None]
Answer = TypeVar("Answer")


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


def too_late(kind: type[InterleaveError], message: str, seconds: float, hint: str) -> InterleaveError:
    """Return the error of a server that is busy for longer than the request can wait."""
    earliest = f"it is busy for at least {math.ceil(seconds):.9g} s, longer than this request can wait."
    error = kind(f"{message.rstrip('.')}; {earliest}", hint)
    error.lasting = True
    return error


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


def check_seconds(**limits: float) -> None:
    """Check that time limits, given by name, are positive and finite.

    Raises:
        SettingsError: One is not. The message names it.
    """
    for name, seconds in limits.items():
        if not 0 < seconds < math.inf:
            raise SettingsError(
                f"The {name} must be a number of seconds above 0, not {seconds:g}.", "Set another number."
            )


class RemoteCall:
    """The connections of a request, and its deadline `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self.hung_up = threading.Event()
        self._deadline = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, 0.0 after it."""
        return max(0.0, self._deadline - time.monotonic())

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Record the socket of a new connection. httpx calls this for every event of a request."""
        if not event.endswith("connect_tcp.complete"):
            return
        # TLS takes over the socket and detaches this object, so a second handle is kept.
        own = info["return_value"].get_extra_info("socket").dup()
        with self._lock:
            self._sockets.append(own)
        if self.hung_up.is_set():
            self.hang_up()

    def hang_up(self) -> None:
        """Close all connections, which ends blocked reads."""
        self.hung_up.set()
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already by the other side
            finally:
                one.close()

    def retried(self, ask: Callable[[], Answer]) -> Answer:
        """Return the result of `ask`, with retries while it raises Retryable.

        Retries end when the call is hung up.

        Raises:
            InterleaveError: The error of the last Retryable, or that the server is busy beyond the deadline.
        """
        from tenacity import Retrying, retry_if_exception_type, sleep_using_event

        def over(state: RetryCallState) -> bool:
            no_time = state.upcoming_sleep >= min(self.seconds_left, MAX_ASKED_FOR)
            return no_time or attempts_are_used_up(state) or self.hung_up.is_set()

        retrying = Retrying(
            retry=retry_if_exception_type(Retryable),
            stop=over,
            sleep=sleep_using_event(self.hung_up),
            wait=pause,
            reraise=True,
        )
        try:
            return retrying(ask)
        except Retryable as fault:
            if fault.after is not None and fault.after >= min(self.seconds_left, MAX_ASKED_FOR):
                hint = "Try again later, or increase the deadline."
                raise too_late(type(fault.error), fault.error.message, fault.after, hint) from fault
            raise fault.error from fault

    def carry_out(
        self, ask: Callable[[OnText], Answer], on_text: OnText | None, late: InterleaveError
    ) -> Answer:
        """Return the result of `ask`, which runs in another thread and gets a function for arriving text.

        Args:
            ask: Sends the request.
            on_text: Called in this thread with arriving text. It may raise to cancel the request.
            late: Error to raise at the deadline.

        Raises:
            InterleaveError: `late`, or an error of `on_text` or `ask`.
        """
        arrived: SimpleQueue[str | _Ended[Answer]] = SimpleQueue()

        def take(text: str) -> None:
            if self.hung_up.is_set():
                raise Cancelled("The request was canceled.")
            if on_text is not None and text:
                arrived.put(text)

        def work() -> None:
            ended: _Ended[Answer] = _Ended()
            try:
                ended.answer.append(ask(take))
            except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                ended.error = error
            arrived.put(ended)

        threading.Thread(target=work, name="interleave-remote-call", daemon=True).start()
        try:
            while self.seconds_left:
                try:
                    found = arrived.get(timeout=min(HEARTBEAT_SECONDS, self.seconds_left))
                except Empty:
                    found = ""
                if isinstance(found, _Ended):
                    return found.result()
                if on_text is not None:
                    on_text(found)
            raise late
        finally:
            self.hang_up()


class _Ended(Generic[Answer]):
    """The result of `ask`: an answer or an error."""

    def __init__(self) -> None:
        self.answer: list[Answer] = []
        self.error: BaseException | None = None

    def result(self) -> Answer:
        if self.error is not None:
            raise self.error
        return self.answer[0]

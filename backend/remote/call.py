"""A request to another machine with an overall deadline, which the caller can cancel at any time.

A blocked read cannot check for cancellation, and a timeout per read does not limit a server that sends a byte
now and then. The request therefore runs in a thread of its own. The calling thread listens for arriving text
and, several times a second, checks the clock and calls `on_text` (with an empty text), which may raise. The
end of the wait closes the connection, so that the thread ends and the server stops working. The thread is a
daemon: a thread that hangs where nothing can be closed (DNS lookup) does not keep the process alive.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import Cancelled, InterleaveError
from .retrying import MAX_ASKED_FOR, Retryable, attempts_are_used_up, pause, too_late

if TYPE_CHECKING:
    from tenacity import RetryCallState

HEARTBEAT_SECONDS = 0.1
OnText = Callable[[str], None]
Answer = TypeVar("Answer")


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
        """Return the result of `ask`, with retries as in retrying.py while it raises Retryable.

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
                message = too_late(fault.error.message, fault.after)
                raise type(fault.error)(message, "Try again later, or increase the deadline.") from fault
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

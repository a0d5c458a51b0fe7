"""One question to another machine: with a deadline for all of it, and ended at any moment by whoever asked.

Decision: a blocked read cannot look up, and a time limit on every read is none on a server that sends a byte
now and then. So the question is asked in a thread of its own, while the asking thread listens to what arrives
and, a few times a second, looks at the clock and asks `on_text` (with an empty text), which may raise.
Whatever ends the wait closes the connection under the reader's hands, so that the thread ends and the server
stops working. The thread is a daemon: one that hangs where nothing can be closed (looking up a name) keeps no
process from ending.
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
    """The connections of one question, and the moment at which it must be answered. `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self.hung_up = threading.Event()
        self._deadline = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float:
        """Until the deadline; 0.0 after it."""
        return max(0.0, self._deadline - time.monotonic())

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Note the socket of a new connection: what httpx calls for every event of a request."""
        if not event.endswith("connect_tcp.complete"):
            return
        # Encryption takes the socket over and leaves this object without one, so a second handle is kept.
        own = info["return_value"].get_extra_info("socket").dup()
        with self._lock:
            self._sockets.append(own)
        if self.hung_up.is_set():
            self.hang_up()

    def hang_up(self) -> None:
        """Close every connection, waking whoever reads from it."""
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
        """The answer of `ask`, which is asked again as retrying.py says while it raises Retryable; nobody
        waits on once the call is hung up. Raises the error of the last Retryable, or that the server has no
        room before the deadline."""
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
                raise type(fault.error)(message, "Ask later, or set a later deadline.") from fault
            raise fault.error from fault

    def carry_out(
        self, ask: Callable[[OnText], Answer], on_text: OnText | None, late: InterleaveError
    ) -> Answer:
        """The answer of `ask`, which is given a function for arriving text. `on_text` is called in this
        thread only.

        Raises `late` at the deadline, what `on_text` raises, and what `ask` raises.
        """
        arrived: SimpleQueue[str | _Ended[Answer]] = SimpleQueue()

        def take(text: str) -> None:
            if self.hung_up.is_set():
                raise Cancelled("Nobody waits for this answer any more.")
            if on_text is not None and text:
                arrived.put(text)

        def work() -> None:
            ended: _Ended[Answer] = _Ended()
            try:
                ended.answer.append(ask(take))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
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
    """How the asking ended: one answer or an error."""

    def __init__(self) -> None:
        self.answer: list[Answer] = []
        self.error: BaseException | None = None

    def result(self) -> Answer:
        if self.error is not None:
            raise self.error
        return self.answer[0]

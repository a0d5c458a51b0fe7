"""Waits for a reply that another machine writes, so that whoever asked can stop at any moment.

Decision: a blocked read cannot look up, so it happens in a thread of its own while the asking thread listens: to the text
that arrives, and a few times a second to its own `on_token`, which gets an empty text then and may raise. Whatever
leaves the wait early closes the connection under the reader's hands, and the server stops writing.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any

from ..errors import Cancelled
from .protocol import Reply

HEARTBEAT_SECONDS = 0.1
GRACE_SECONDS = 2.0
OnToken = Callable[[str], None]


class Line:
    """The connections of one question. `trace` is what httpx calls for every event of a request."""

    def __init__(self) -> None:
        self.hung_up = threading.Event()
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Note the socket of a new connection (httpcore's events `...connect_tcp.complete`, `...start_tls.complete`)."""
        if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        found = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._sockets.append(found)
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
                continue  # closed already


def wait_for(ask: Callable[[OnToken], Reply], on_token: OnToken, line: Line) -> Reply:
    """The reply of `ask`, which is given a function for arriving text; `on_token` is called in this thread only."""
    arrived: SimpleQueue[str | None] = SimpleQueue()

    def take(text: str) -> None:
        if line.hung_up.is_set():
            raise Cancelled("Nobody waits for this reply any more.")
        arrived.put(text)

    asking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interleave-reply")
    try:
        future: Future[Reply] = asking.submit(ask, take)
        future.add_done_callback(lambda _: arrived.put(None))
        while True:
            try:
                text = arrived.get(timeout=HEARTBEAT_SECONDS)
            except Empty:
                on_token("")
                continue
            if text is None:
                return future.result()
            on_token(text)
    finally:
        line.hang_up()
        asking.shutdown(wait=False, cancel_futures=True)

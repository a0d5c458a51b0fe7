"""Limits the number of connections of this package's servers, and how long each may keep the server waiting.

Clients can open connections and send half a request at no cost, while each takes a file descriptor of the
process. Their number therefore has a limit below the system's own. At the limit, the connection that has kept
the server waiting longest is closed for a new one, so clients that send complete requests are still served. A
socket is shut down here and closed by the code that serves it, which sees a client that hung up.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections import OrderedDict
from contextlib import suppress

GRACE = 0.1
"""Seconds for which no connection is closed for a new one, because its first data may not be read yet."""
FILES_BESIDE = 2
"""File descriptors reserved per connection. Half of them are for other uses."""


class Connections:
    """Limits the number of connections to `most`. Thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._all: set[socket.socket] = set()
        self._waiting: OrderedDict[socket.socket, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._all)

    def make_room(self) -> bool:
        """Return whether one more connection is possible.

        If necessary, the connection that has waited longest is closed.
        """
        with self._lock:
            if len(self._all) < self.most:
                return True
            longest, (since, _) = next(iter(self._waiting.items()), (None, (0.0, 0.0)))
            if longest is None or time.monotonic() < since + GRACE:
                return False
            self._end(longest)
            return True

    def waits(self, connection: socket.socket, seconds: float = math.inf) -> None:
        """Record that the server waits for this client, for at most `seconds`.

        A new connection is counted from now on.
        """
        with self._lock:
            now = time.monotonic()
            self._all.add(connection)
            self._waiting[connection] = now, now + seconds
            self._waiting.move_to_end(connection)

    def works(self, connection: socket.socket) -> None:
        """Record that the client waits for the server."""
        with self._lock:
            self._waiting.pop(connection, None)

    def remove(self, connection: socket.socket) -> None:
        """Remove a connection that is closed, or about to be."""
        with self._lock:
            self._all.discard(connection)
            self._waiting.pop(connection, None)

    def close_late(self) -> None:
        """Close the connections that exceeded their time."""
        now = time.monotonic()
        with self._lock:
            for connection in [one for one, (_, until) in self._waiting.items() if until <= now]:
                self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        self._all.discard(connection)
        self._waiting.pop(connection, None)
        # A client that has hung up is no longer connected.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def connections_allowed(wanted: int) -> int:
    """Return the number of connections, at most `wanted`, for which this process may open enough files.

    The soft limit of open files is raised towards the hard limit if necessary.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    files = wanted * FILES_BESIDE
    if soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft // FILES_BESIDE))

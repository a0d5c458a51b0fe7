"""A small server of a test, in its own thread until the block ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from threading import Thread
from typing import TypeVar

Server = TypeVar("Server", bound=BaseServer)


@contextmanager
def in_thread(server: Server) -> Iterator[Server]:
    """Run the server while the block runs."""
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""The memory that requests take: bodies, pixels, and what decoding an image takes for a moment, counted
together and bounded.

Decision: it is taken before it is used. A file of a few kilobytes may hold fifty million pixels, and sixteen
of them, decoded by four threads and counted afterwards, would be gigabytes that nobody had asked about. Who
finds no room is refused with 503 and may come again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .pool import Busy
from .settings import MIB

MAX_HELD = 1024 * MIB
"""Bytes that all requests together may hold."""
PIXEL_BYTES = 3
DECODING_BYTES = 8
"""Bytes a pixel while a file becomes a picture: read with transparency and 16 bits a channel, then turned to
RGB."""


class MemoryBudget:
    """What is held, of `most` bytes. Threads may share it."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self.bytes = 0
        self._most = most
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Hold so many bytes more; raises Busy, and holds none of them, where there is no room."""
        with self._lock:
            if size and self.bytes + size > self._most:
                raise Busy("Too many large requests are under way.", retry_after=2.0)
            self.bytes += size

    def give_back(self, size: int) -> None:
        """Hold so many bytes less."""
        with self._lock:
            self.bytes -= size

    @contextmanager
    def during(self, size: int) -> Iterator[None]:
        """Hold so many bytes while the block runs; raises Busy."""
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)


class RequestMemory:
    """What one request holds of it, given back with the request. Used by one thread at a time."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._taken, self._over = 0, False

    def take(self, size: int) -> None:
        """As MemoryBudget.take; of a request that is over nothing is held."""
        if not self._over:
            self._budget.take(size)
            self._taken += size

    @contextmanager
    def decoding(self, pixels: int) -> Iterator[None]:
        """Hold what decoding so many pixels takes while the block runs, and the picture itself after it;
        raises Busy."""
        with self._budget.during(pixels * DECODING_BYTES):
            yield
        self.take(pixels * PIXEL_BYTES)

    def give_back(self) -> None:
        """The request is over."""
        self._over = True
        self._budget.give_back(self._taken)
        self._taken = 0

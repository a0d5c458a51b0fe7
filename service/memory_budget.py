"""Limits the RAM of all requests together: bodies, pixels, and the temporary memory of decoding an image.

Memory is reserved before it is used. A file of a few kilobytes can contain fifty million pixels, and sixteen
of them, decoded by four threads and counted afterwards, would take gigabytes. A request without enough memory
is rejected with 503 and can be retried.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .pool import Busy
from .settings import MIB

MAX_HELD = 1024 * MIB
"""Maximum bytes of all requests together."""
PIXEL_BYTES = 3
DECODING_BYTES = 8
"""Temporary bytes per pixel while a file is decoded: with transparency and 16 bits per channel, then RGB."""


class MemoryBudget:
    """Counts reserved bytes, at most `most`. Thread-safe."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self.bytes = 0
        self._most = most
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Reserve bytes.

        Raises:
            Busy: Not enough memory is left. Nothing is reserved then.
        """
        with self._lock:
            if size and self.bytes + size > self._most:
                raise Busy("Too many large requests are being processed.", retry_after=2.0)
            self.bytes += size

    def give_back(self, size: int) -> None:
        """Release bytes."""
        with self._lock:
            self.bytes -= size

    @contextmanager
    def during(self, size: int) -> Iterator[None]:
        """Reserve bytes while the block runs. Raises Busy."""
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)


class RequestMemory:
    """Memory reserved by one request, and released with it. Used by one thread at a time."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._taken, self._over = 0, False

    def take(self, size: int) -> None:
        """Reserve bytes as MemoryBudget.take does. Does nothing once the request is finished."""
        if not self._over:
            self._budget.take(size)
            self._taken += size

    @contextmanager
    def decoding(self, pixels: int) -> Iterator[None]:
        """Reserve the memory to decode an image while the block runs, and that of the image itself after it.

        Raises:
            Busy: Not enough memory is left.
        """
        with self._budget.during(pixels * DECODING_BYTES):
            yield
        self.take(pixels * PIXEL_BYTES)

    def give_back(self) -> None:
        """Release all memory of the request."""
        self._over = True
        self._budget.give_back(self._taken)
        self._taken = 0

"""Generates no image twice: equal concurrent requests share one image, and finished images are cached.

Only requests with a seed are shared, since a request without one wants any image. A generation continues as
long as at least one of its requests waits for it, and is canceled with the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from ..backend.machine.byte_lru import ByteLRU
from .pool import GeneratedImage

Source = Literal["drawn", "joined", "kept"]
ENTRY_BYTES = 1024
"""Approximate size of an entry in addition to its image, in bytes."""


@dataclass
class _Flight:
    task: asyncio.Task[GeneratedImage]
    waiting: int = 0


class SharedDraws:
    """Images by the digest of their request. Used in one event loop.

    Args:
        budget: Size of the cache in bytes. 0 disables it.
    """

    def __init__(self, budget: int) -> None:
        self.kept: ByteLRU[str, GeneratedImage] = ByteLRU(
            budget, lambda drawn: len(drawn.image) + ENTRY_BYTES
        )
        self._flights: dict[str, _Flight] = {}

    def is_under_way(self, key: str) -> bool:
        """Return whether a request with this key would share another one's image."""
        return key in self._flights

    async def draw(
        self, key: str, make: Callable[[], Awaitable[GeneratedImage]]
    ) -> tuple[GeneratedImage, Source]:
        """Return the image of a key, and where it came from.

        Args:
            key: Digest of the request.
            make: Generates the image. Its errors are raised.
        """
        kept = self.kept.get(key)
        if kept is not None:
            return kept, "kept"
        flight = self._flights.get(key)
        source: Source = "joined" if flight else "drawn"
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.ensure_future(_awaited(make)))
            flight.task.add_done_callback(lambda task: self._landed(key, task))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task), source
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._forget(key, flight.task)
                flight.task.cancel()

    def _landed(self, key: str, task: asyncio.Task[GeneratedImage]) -> None:
        self._forget(key, task)
        if not task.cancelled() and task.exception() is None:
            self.kept.put(key, task.result())

    def _forget(self, key: str, task: asyncio.Task[GeneratedImage]) -> None:
        flight = self._flights.get(key)
        if flight is not None and flight.task is task:
            del self._flights[key]


async def _awaited(make: Callable[[], Awaitable[GeneratedImage]]) -> GeneratedImage:
    return await make()

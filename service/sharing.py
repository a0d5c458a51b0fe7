"""Never drawn twice: equal requests under way are one draw, finished ones are kept for a while.

Decision: only requests with a seed of their own are shared, since one without asks for any image. A draw goes
on as long as one of those who wait for it is there, and is cancelled with the last of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from ..backend.byte_lru import ByteLRU
from .pool import GeneratedImage

Source = Literal["drawn", "joined", "kept"]
ENTRY_BYTES = 1024
"""What an entry takes beside its image, about."""


@dataclass
class _Flight:
    task: asyncio.Task[GeneratedImage]
    waiting: int = 0


class SharedDraws:
    """Draws by the digest of their request. `budget`: bytes of finished images to keep, 0 for none. Used in
    one event loop."""

    def __init__(self, budget: int) -> None:
        self.kept: ByteLRU[str, GeneratedImage] = ByteLRU(
            budget, lambda drawn: len(drawn.image) + ENTRY_BYTES
        )
        self._flights: dict[str, _Flight] = {}

    def is_under_way(self, key: str) -> bool:
        """Whether a request for this key would join another one's draw."""
        return key in self._flights

    async def draw(
        self, key: str, make: Callable[[], Awaitable[GeneratedImage]]
    ) -> tuple[GeneratedImage, Source]:
        """The image under this key, and whether it was drawn for this request. Raises what `make` raises."""
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

"""Admits requests: space in a model's queue, and a limit per client.

A request waits for space in a full queue before it is rejected. Clients of the published services retry
without a pause and give up after ten attempts, so an immediate rejection would cost them the image. Requests
wait in order of arrival, and the waiting line has a limit too.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from .pool import Busy, GeneratedImage, Pool, ServiceError
from .settings import ServiceSettings

MAX_LINE = 10
"""Maximum number of requests that wait for space, as a multiple of the queue."""
NEW_SHARE = 0.2
"""Weight of the latest image in the mean duration."""
CLOSING_SECONDS = 5.0
MAX_CLIENT_LINE = 1000


class TooManyRequests(ServiceError):
    """A client has more concurrent requests than allowed."""

    status = 429


class RequestSlots:
    """Limits the number of concurrent requests. Others wait in line."""

    def __init__(self, limit: Callable[[], int], line: int) -> None:
        self._limit, self._longest = limit, line
        self._line: deque[asyncio.Future[None]] = deque()
        self.taken = 0

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._line)

    async def acquire(self, patience: float) -> bool:
        """Wait up to `patience` seconds for a slot, and return whether it was acquired.

        A caller that acquired a slot must `release` it.
        """
        if not self._line and self.taken < self._limit():
            self.taken += 1
            return True
        if patience <= 0 or len(self._line) >= self._longest:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await asyncio.wait({turn}, timeout=patience)
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                self._line.remove(turn)
            raise
        if turn.cancelled():
            return False
        if not turn.done():
            self._line.remove(turn)
            return False
        return True

    def release(self) -> None:
        """Release a slot, and give it to the first in line."""
        self.taken -= 1
        self.wake()

    def wake(self) -> None:
        """Admit waiting requests up to the limit, which may have increased."""
        while self._line and self.taken < self._limit():
            turn = self._line.popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)

    def cancel_all(self) -> None:
        """Reject all waiting requests."""
        while self._line:
            self._line.popleft().cancel()


class Admission:
    """The queue of each model: what its workers generate now, and `queue` further requests."""

    def __init__(self, pool: Pool, settings: ServiceSettings) -> None:
        self._pool, self._settings = pool, settings
        self._slots: dict[str, RequestSlots] = {}
        self._seconds: dict[str, float] = {}
        self._closing = False

    @property
    def closing(self) -> bool:
        """Whether no further requests are admitted."""
        return self._closing

    @property
    def under_way(self) -> int:
        """Number of admitted requests that are not answered yet."""
        return sum(slots.taken for slots in self._slots.values())

    def waiting(self, model: str) -> int:
        """Return the number of requests that wait for space."""
        slots = self._slots.get(model)
        return slots.waiting if slots else 0

    def close(self) -> None:
        """Admit no further requests, and reject the waiting ones."""
        self._closing = True
        for slots in self._slots.values():
            slots.cancel_all()

    @asynccontextmanager
    async def slot(self, model: str) -> AsyncIterator[None]:
        """Hold a slot in a model's queue while the block runs.

        Raises:
            Busy: The queue is full, or the service is shutting down.
        """
        self.check_open()
        slots = self._slots.setdefault(model, self._new_slots(model))
        slots.wake()
        acquired = await slots.acquire(self._settings.patience)
        if not acquired:
            self.check_open()
            raise Busy(
                f"The queue of {model!r} is full: {self._pool.queued(model)} requests are waiting.",
                retry_after=self.retry_after(model),
            )
        try:
            yield
        finally:
            slots.release()

    def check_open(self) -> None:
        """Raise Busy if the service is shutting down."""
        if self._closing:
            raise Busy("The service is shutting down.", retry_after=CLOSING_SECONDS)

    def note(self, model: str, drawn: GeneratedImage) -> None:
        """Update the mean duration of an image."""
        before = self._seconds.get(model, drawn.draw_seconds)
        self._seconds[model] = before + NEW_SHARE * (drawn.draw_seconds - before)

    def retry_after(self, model: str) -> float:
        """Return the estimated seconds until the queue is done, at least 1."""
        seconds = self._seconds.get(model, 1.0)
        ahead = self._pool.queued(model) + self.waiting(model)
        return float(max(1, math.ceil(ahead * seconds / max(1, self._pool.capacity(model)))))

    def _new_slots(self, model: str) -> RequestSlots:
        return RequestSlots(
            lambda: self._settings.queue + self._pool.capacity(model), MAX_LINE * self._settings.queue
        )


class ClientShares:
    """Limits the concurrent requests per client. Further ones wait, and are rejected after a timeout."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._slots: dict[str, RequestSlots] = {}

    @asynccontextmanager
    async def share(self, client: str) -> AsyncIterator[None]:
        """Count a request of a client while the block runs.

        Raises:
            TooManyRequests: The client has too many concurrent requests.
        """
        slots = self._slots.setdefault(
            client, RequestSlots(lambda: self._settings.per_client, MAX_CLIENT_LINE)
        )
        acquired = await slots.acquire(self._settings.patience)
        if not acquired:
            raise TooManyRequests(
                f"This client has {self._settings.per_client} concurrent requests, the maximum.",
                retry_after=1.0,
            )
        try:
            yield
        finally:
            slots.release()
            if not slots.taken and not slots.waiting:
                self._slots.pop(client, None)

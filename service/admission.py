"""Who may come in: room in a model's queue, and the share of one client.

Decision: a full queue is first waited for and only then refused. Clients of the published services ask again
without a pause and give up after ten tries, so a refusal at once would cost them the image. Whoever waits
does so in the order of coming, and the line itself is bounded.
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
"""Requests that wait for room, as a multiple of the queue."""
NEW_SHARE = 0.2
"""How much the newest draw counts in the mean of their seconds."""
CLOSING_SECONDS = 5.0
MAX_CLIENT_LINE = 1000


class TooManyRequests(ServiceError):
    """One client has more requests under way than it may."""

    status = 429


class RequestSlots:
    """So many may be in at a time; the others stand in line."""

    def __init__(self, limit: Callable[[], int], line: int) -> None:
        self._limit, self._longest = limit, line
        self._line: deque[asyncio.Future[None]] = deque()
        self.taken = 0

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    async def acquire(self, patience: float) -> bool:
        """Whether there was room within so many seconds; who came in has to `release`."""
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
        """Make room, for the first in line if there is one."""
        self.taken -= 1
        self.wake()

    def wake(self) -> None:
        """Let in as many as there is room for, which may have grown."""
        while self._line and self.taken < self._limit():
            turn = self._line.popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)

    def cancel_all(self) -> None:
        """Send away all who stand in line."""
        while self._line:
            self._line.popleft().cancel()


class Admission:
    """Room in the queue of each model: what its workers draw at the moment, and `queue` requests more."""

    def __init__(self, pool: Pool, settings: ServiceSettings) -> None:
        self._pool, self._settings = pool, settings
        self._slots: dict[str, RequestSlots] = {}
        self._seconds: dict[str, float] = {}
        self._closing = False

    @property
    def closing(self) -> bool:
        """Whether nobody is admitted any more."""
        return self._closing

    @property
    def under_way(self) -> int:
        """Requests that were admitted and are not answered yet."""
        return sum(slots.taken for slots in self._slots.values())

    def waiting(self, model: str) -> int:
        """Requests that wait for room."""
        slots = self._slots.get(model)
        return slots.waiting if slots else 0

    def close(self) -> None:
        """Admit nobody any more; who waits is refused."""
        self._closing = True
        for slots in self._slots.values():
            slots.cancel_all()

    @asynccontextmanager
    async def slot(self, model: str) -> AsyncIterator[None]:
        """A slot in the queue while the block runs; raises Busy."""
        self.check_open()
        slots = self._slots.setdefault(model, self._new_slots(model))
        slots.wake()
        acquired = await slots.acquire(self._settings.patience)
        if not acquired:
            self.check_open()
            raise Busy(
                f"The queue of {model!r} is full: {self._pool.queued(model)} requests wait to be drawn.",
                retry_after=self.retry_after(model),
            )
        try:
            yield
        finally:
            slots.release()

    def check_open(self) -> None:
        """Raise Busy once the service is about to end."""
        if self._closing:
            raise Busy("The service is about to end.", retry_after=CLOSING_SECONDS)

    def note(self, model: str, drawn: GeneratedImage) -> None:
        """Count a draw's seconds into the mean."""
        before = self._seconds.get(model, drawn.draw_seconds)
        self._seconds[model] = before + NEW_SHARE * (drawn.draw_seconds - before)

    def retry_after(self, model: str) -> float:
        """Seconds until what is queued now is drawn, 1 at least."""
        seconds = self._seconds.get(model, 1.0)
        ahead = self._pool.queued(model) + self.waiting(model)
        return float(max(1, math.ceil(ahead * seconds / max(1, self._pool.capacity(model)))))

    def _new_slots(self, model: str) -> RequestSlots:
        return RequestSlots(
            lambda: self._settings.queue + self._pool.capacity(model), MAX_LINE * self._settings.queue
        )


class ClientShares:
    """How many requests one client has under way; further ones wait, and are refused past the patience."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._slots: dict[str, RequestSlots] = {}

    @asynccontextmanager
    async def share(self, client: str) -> AsyncIterator[None]:
        """One of the client's requests while the block runs; raises TooManyRequests."""
        slots = self._slots.setdefault(
            client, RequestSlots(lambda: self._settings.per_client, MAX_CLIENT_LINE)
        )
        acquired = await slots.acquire(self._settings.patience)
        if not acquired:
            raise TooManyRequests(
                f"{self._settings.per_client} requests of this client are under way, the most at a time.",
                retry_after=1.0,
            )
        try:
            yield
        finally:
            slots.release()
            if not slots.taken and not slots.waiting:
                self._slots.pop(client, None)

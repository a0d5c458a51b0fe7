"""The queue of a model, and which of its requests share a call.

Requests are processed in order of arrival. Requests that are equal in everything but prompt, source image and
seed may share a call, and wait a moment for each other. A request whose call crashed is retried alone, so
that it cannot affect others again, and on another worker if there is one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from ..pool import GeneratedImage, ImageRequest, ServiceError


@dataclass(eq=False)
class QueuedRequest:
    """A waiting request. `failed_at` lists the workers that failed at it."""

    request: ImageRequest
    answer: asyncio.Future[GeneratedImage]
    since: float = field(default_factory=time.monotonic)
    failed_at: tuple[str, ...] = ()

    @property
    def given_up(self) -> bool:
        """Whether the request was canceled or answered."""
        return self.answer.done()

    def fail(self, error: ServiceError) -> None:
        """Answer with an error."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def joins(self, first: QueuedRequest) -> bool:
        """Return whether the request may share a call with another one."""
        key = self.request.batch_key
        return (
            not self.failed_at and not first.failed_at and key is not None and key == first.request.batch_key
        )


class ModelQueue:
    """The queue of one model. Used in one event loop.

    Args:
        batch: Maximum number of requests in one call.
        wait: Seconds that the first request waits for others.
    """

    def __init__(self, batch: int, wait: float) -> None:
        self._batch, self._wait = batch, wait
        self._waiting: deque[QueuedRequest] = deque()
        self._changed = asyncio.Condition()

    def __len__(self) -> int:
        return len(self._waiting)

    async def add(self, waiting: QueuedRequest, first: bool = False) -> None:
        """Add a request at the end, or at the beginning."""
        async with self._changed:
            (self._waiting.appendleft if first else self._waiting.append)(waiting)
            self._changed.notify_all()

    def remove(self, waiting: QueuedRequest) -> None:
        """Remove a request, if no worker has taken it yet."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    def fail_all(self, error: ServiceError) -> None:
        """Answer all requests with an error."""
        while self._waiting:
            self._waiting.popleft().fail(error)

    async def wake(self) -> None:
        """Let the workers check again which requests they can take."""
        async with self._changed:
            self._changed.notify_all()

    async def next(self, may_take: Callable[[QueuedRequest], bool], batches: bool) -> list[QueuedRequest]:
        """Wait for requests, and return those that share the next call of a worker.

        Args:
            may_take: Returns whether the worker may process a request.
            batches: Whether its model can generate several images per call.
        """
        async with self._changed:
            first = await self._first(may_take)
            taken = [first]
            if not batches or self._batch == 1 or first.request.batch_key is None:
                return taken
            until = time.monotonic() + self._wait
            try:
                while True:
                    self._take_like(first, taken)
                    left = until - time.monotonic()
                    if len(taken) >= self._batch or left <= 0:
                        return [one for one in taken if not one.given_up] or [first]
                    with suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.CancelledError:
                self._waiting.extendleft(reversed(taken))
                raise

    async def _first(self, may_take: Callable[[QueuedRequest], bool]) -> QueuedRequest:
        while True:
            for waiting in list(self._waiting):
                if waiting.given_up:
                    self._waiting.remove(waiting)
                elif may_take(waiting):
                    self._waiting.remove(waiting)
                    return waiting
            await self._changed.wait()

    def _take_like(self, first: QueuedRequest, taken: list[QueuedRequest]) -> None:
        for waiting in list(self._waiting):
            if len(taken) >= self._batch:
                return
            if not waiting.given_up and waiting.joins(first):
                self._waiting.remove(waiting)
                taken.append(waiting)

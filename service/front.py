"""What happens to a request between HTTP and the pool: admission, cache, timeout, memory.

It is the same for every kind of pool, so that limits and guarantees (a request waits for space in a full
queue before it is rejected, an answer arrives before the deadline) hold for all of them. Clients of the
published services retry without a pause and give up after ten attempts, so an immediate rejection would cost
them the image.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ..backend.core.machine.byte_lru import ByteLRU
from .pool import Busy, GeneratedImage, ImageRequest, ModelInfo, Pool, ServiceError, UnknownModel
from .settings import MIB, ServiceSettings

LOG = logging.getLogger("interleave_thinker.service")
ENTRY_BYTES = 1024
"""Approximate size of a cached image in addition to its file, in bytes."""
CLOSING_SECONDS = 5.0
MAX_HELD = 1024 * MIB
"""Maximum bytes of all requests together: bodies, pixels, and the temporary memory of decoding."""


class TooManyRequests(ServiceError):
    """A client has more concurrent requests than allowed."""

    status = 429


class Places:
    """Places for requests by name (a model, a client). Others wait in order of arrival.

    Args:
        limit: Places of a name.
        patience: Seconds that a request waits for a place.
    """

    def __init__(self, limit: int, patience: float) -> None:
        self._limit, self._patience = limit, patience
        self._free: dict[str, asyncio.Semaphore] = {}
        self.taken: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def place(self, name: str, refusal: Callable[[], ServiceError]) -> AsyncIterator[None]:
        """Hold a place while the block runs. Raises `refusal` if none became free in time."""
        free = self._free.setdefault(name, asyncio.Semaphore(self._limit))
        self.waiting[name] += 1
        try:
            if free.locked():
                await asyncio.wait_for(free.acquire(), self._patience)
            else:
                await free.acquire()
        except asyncio.TimeoutError:
            raise refusal() from None
        finally:
            self.waiting[name] -= 1
        self.taken[name] += 1
        try:
            yield
        finally:
            free.release()
            self.taken[name] -= 1
            if not self.taken[name] and not self.waiting[name]:
                for counted in (self._free, self.taken, self.waiting):
                    del counted[name]


class RequestMemory:
    """Memory reserved by one request, and released with it.

    Memory is reserved before it is used: a file of a few kilobytes can contain fifty million pixels.
    """

    def __init__(self, held: HeldMemory) -> None:
        self._held, self._taken, self._over = held, 0, False

    def take(self, size: int) -> None:
        """Reserve bytes, or release them if `size` is negative, unless the request is finished.

        Raises:
            Busy: Not enough memory is left.
        """
        if not self._over:
            self._held.add(size)
            self._taken += size

    def give_back(self) -> None:
        """Release all memory of the request."""
        self._over = True
        self._held.add(-self._taken)
        self._taken = 0


class HeldMemory:
    """Counts the bytes of all requests, at most `most`. Thread-safe."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self.bytes, self.most = 0, most
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Add bytes. Raises Busy if there would be too many; nothing is added then."""
        with self._lock:
            if size > 0 and self.bytes + size > self.most:
                raise Busy("Too many large requests are being processed.", retry_after=2.0)
            self.bytes += size


class Front:
    """Everything that the routes need.

    Attributes:
        places: The queue of each model: what its workers generate now, and `queue` further requests.
        clients: The concurrent requests of each client.
        kept: Finished images of requests with a seed, by the digest of the request.
        closing: Whether no further requests are admitted.
    """

    def __init__(self, pool: Pool, settings: ServiceSettings) -> None:
        self.pool, self.settings = pool, settings
        self.places = Places(settings.queue + settings.batch, settings.patience)
        self.clients = Places(settings.per_client, settings.patience)
        self.kept: ByteLRU[str, GeneratedImage] = ByteLRU(
            settings.keep * MIB, lambda drawn: len(drawn.image) + ENTRY_BYTES
        )
        self.held = HeldMemory()
        self.closing = False
        self._seconds: dict[str, float] = {}

    def model(self, name: str) -> ModelInfo:
        """Return the model of a name, or the first one for "".

        Raises:
            UnknownModel: No such model is served.
        """
        models = self.pool.models()
        for info in models:
            if info.name == name or not name:
                return info
        known = ", ".join(info.name for info in models)
        raise UnknownModel(f"The model {name[:100]!r} is not served.", f"Served models: {known}.")

    def identity(self, info: ModelInfo) -> str:
        """Return the identity of everything that affects this model's images, apart from the request."""
        if not info.identity or not info.batches or self.settings.batch == 1:
            return info.identity
        return f"{info.identity} batch<={self.settings.batch}"

    async def draw(self, request: ImageRequest, seeded: bool) -> GeneratedImage:
        """Return the image of a request.

        Args:
            request: The request.
            seeded: Whether the client gave the seed, so that the image of an equal request can be used.

        Raises:
            ServiceError: The image could not be generated.
        """
        deadline = time.monotonic() + self.settings.timeout
        if self.settings.log_prompts:
            LOG.info("%s %s seed %d: %s", request.client, request.model, request.seed, request.prompt)
        drawn = self.kept.get(request.key) if seeded else None
        if drawn is None:
            drawn = await self._drawn(request, deadline)
            if seeded:
                self.kept.put(request.key, drawn)
        return drawn

    async def _drawn(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        model = request.model
        self.check_open()
        async with self.places.place(model, lambda: self._full(model)):
            self.check_open()
            drawn = await self.pool.draw(request, deadline)
        self._seconds[model] = drawn.draw_seconds
        return drawn

    def _full(self, model: str) -> Busy:
        """Return the error of a full queue, with the estimated seconds until it is done."""
        ahead = self.pool.queued(model) + self.places.waiting[model]
        seconds = ahead * self._seconds.get(model, 1.0) / max(1, self.pool.capacity(model))
        message = f"The queue of {model!r} is full: {self.pool.queued(model)} requests are waiting."
        return Busy(message, retry_after=float(max(1, math.ceil(seconds))))

    def too_many(self) -> TooManyRequests:
        """Return the error of a client with too many requests."""
        return TooManyRequests(
            f"This client has {self.settings.per_client} concurrent requests, the maximum.", retry_after=1.0
        )

    def check_open(self) -> None:
        """Raise Busy if the service is shutting down."""
        if self.closing:
            raise Busy("The service is shutting down.", retry_after=CLOSING_SECONDS)

    def under_way(self) -> int:
        """Return the number of admitted requests that are not answered yet."""
        return self.places.taken.total()

    def close(self) -> None:
        """Admit no further requests, and reject those that wait as soon as it is their turn."""
        self.closing = True

"""What happens to a request between HTTP and the pool: sharing, admission, timeout, metrics.

It is the same for every kind of pool, so that limits and guarantees (equal requests are generated once, an
answer arrives before the deadline) hold for all of them.
"""

from __future__ import annotations

import logging
import time
from collections import deque

from .admission import Admission, ClientShares
from .memory_budget import MemoryBudget
from .metrics import Metrics
from .pool import DrawTimeout, GeneratedImage, ImageRequest, ModelInfo, Pool, UnknownModel
from .settings import MIB, ServiceSettings
from .sharing import SharedDraws, Source

LOG = logging.getLogger("interleave_thinker.service")
RECENT = 12


class Front:
    """Everything that the routes need.

    `recent` contains the keys of the last cached images, newest first.
    """

    def __init__(self, pool: Pool, settings: ServiceSettings) -> None:
        self.pool, self.settings = pool, settings
        self.admission = Admission(pool, settings)
        self.clients = ClientShares(settings)
        self.shared = SharedDraws(settings.keep * MIB)
        self.metrics = Metrics(pool)
        self.held = MemoryBudget()
        self.recent: deque[str] = deque(maxlen=RECENT)

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
        if not seeded:
            return self._counted(request, await self._admitted(request, deadline), "drawn")
        key = request.key
        while True:
            joining = self.shared.is_under_way(key)
            try:
                drawn, how = await self.shared.draw(key, lambda: self._admitted(request, deadline))
            except DrawTimeout:
                # The request joined another one, whose deadline was earlier.
                if not joining or time.monotonic() > deadline - 1.0:
                    raise
                continue
            if how == "drawn":
                self.recent.appendleft(key)
            return self._counted(request, drawn, how)

    def close(self) -> None:
        """Admit no further requests."""
        self.admission.close()

    def under_way(self) -> int:
        """Return the number of admitted requests that are not answered yet."""
        return self.admission.under_way

    async def _admitted(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        async with self.admission.slot(request.model):
            drawn = await self.pool.draw(request, deadline)
        self.admission.note(request.model, drawn)
        return drawn

    def _counted(self, request: ImageRequest, drawn: GeneratedImage, how: Source) -> GeneratedImage:
        self.metrics.shared.labels(request.model, how).inc()
        self.metrics.sent.inc(len(drawn.image))
        if how == "drawn":
            self.metrics.note(request.model, drawn)
        return drawn

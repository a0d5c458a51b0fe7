"""What happens to a request between HTTP and the pool: shared, admitted, timed, counted.

Decision: it is one object, the same before every kind of pool, so that a limit or a promise (one draw for
equal requests, an answer before the deadline) holds wherever the drawing is done.
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
    """All that the routes need. `recent` are the keys of the last images that were kept, newest first."""

    def __init__(self, pool: Pool, settings: ServiceSettings) -> None:
        self.pool, self.settings = pool, settings
        self.admission = Admission(pool, settings)
        self.clients = ClientShares(settings)
        self.shared = SharedDraws(settings.keep * MIB)
        self.metrics = Metrics(pool)
        self.held = MemoryBudget()
        self.recent: deque[str] = deque(maxlen=RECENT)

    def model(self, name: str) -> ModelInfo:
        """The model of this name, the first one for ""; raises UnknownModel."""
        models = self.pool.models()
        for info in models:
            if info.name == name or not name:
                return info
        known = ", ".join(info.name for info in models)
        raise UnknownModel(f"There is no model {name[:100]!r} here.", f"Served are: {known}.")

    def identity(self, info: ModelInfo) -> str:
        """What names everything beside prompt, source, seed and settings that shapes this model's images."""
        if not info.identity or not info.batches or self.settings.batch == 1:
            return info.identity
        return f"{info.identity} batch<={self.settings.batch}"

    async def draw(self, request: ImageRequest, seeded: bool) -> GeneratedImage:
        """The image; `seeded`: the client named the seed, so that an equal request's image will do. Raises
        ServiceError."""
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
                # Of a draw that another request had begun, and whose deadline was earlier.
                if not joining or time.monotonic() > deadline - 1.0:
                    raise
                continue
            if how == "drawn":
                self.recent.appendleft(key)
            return self._counted(request, drawn, how)

    def close(self) -> None:
        """Admit nobody any more."""
        self.admission.close()

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

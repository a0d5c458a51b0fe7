"""A pool in this process that paints immediately or slowly, for tests of the code in front of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from interleave_thinker.backend.models.generators.fake import open as open_fake
from interleave_thinker.service.pool import (
    Drawer,
    DrawTimeout,
    GeneratedImage,
    ImageRequest,
    ModelInfo,
    ServiceError,
    WorkerState,
)
from interleave_thinker.service.settings import ModelSettings


class SmallPool:
    """`names` of models, each painting colored cells in `seconds`. `fails` is raised instead of an image."""

    def __init__(self, *names: str) -> None:
        models = [ModelSettings(name=name, generator="fake") for name in names or ("painter",)]
        self._drawers = {one.name: Drawer(open_fake("64"), one, f"{one.name}-0") for one in models}
        self.seconds, self.fails = 0.0, list[ServiceError]()
        self.requests: list[ImageRequest] = []
        self.states = [WorkerState(f"{name}-0", name, "cpu", "alive") for name in self._drawers]
        self.at_work = 0

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        self.requests.append(request)
        if self.fails:
            raise self.fails.pop(0)
        self.at_work += 1
        try:
            await asyncio.sleep(min(self.seconds, max(0.0, deadline - time.monotonic())))
        finally:
            self.at_work -= 1
        if time.monotonic() >= deadline:
            raise DrawTimeout("Too late.")
        (outcome,) = self._drawers[request.model].draw([request])
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome

    def models(self) -> Sequence[ModelInfo]:
        return [drawer.info for drawer in self._drawers.values()]

    def workers(self) -> Sequence[WorkerState]:
        return self.states

    def queued(self, model: str) -> int:
        return max(0, self.at_work - 1)

    def capacity(self, model: str) -> int:
        return 1

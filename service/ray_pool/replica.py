"""The classes of Serve's deployments, which run on a GPU.

Images are generated in a thread of their own, so that the replica answers Serve's health checks meanwhile.
There is one thread, because a model processes one batch at a time. Errors are returned as values and not
raised, since Serve would wrap an exception with the traceback of another machine. The classes are defined in
functions, because their decorators belong to Serve and this module is imported where Ray is not installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from ..drawer import DrawOutcome, OpenDrawer
from ..pool import ImageRequest, ModelInfo
from ..settings import ModelSettings

Answer = tuple[DrawOutcome, ModelInfo]


class OneModel:
    """A model that is loaded once, and the thread that generates with it.

    `open_drawer` and `device` are as for `Drawer.open`.
    """

    def __init__(
        self, open_drawer: OpenDrawer, model: ModelSettings, device: str, worker: str, gpu: int
    ) -> None:
        self._drawer = open_drawer(model, device, worker, gpu)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="interleave-draw")

    @property
    def info(self) -> ModelInfo:
        """The model's information."""
        return self._drawer.info

    async def draw(self, requests: Sequence[ImageRequest]) -> list[Answer]:
        """Return an answer for each request.

        Requests that cannot share a call are processed one after another. Cancelling interrupts the
        generation.
        """
        stop = Event()
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, self._draw_all, list(requests), stop)
        except asyncio.CancelledError:
            stop.set()
            raise
        return [(outcome, self._drawer.info) for outcome in found]

    def _draw_all(self, requests: list[ImageRequest], stop: Event) -> list[DrawOutcome]:
        groups: dict[Any, list[int]] = {}
        for at, request in enumerate(requests):
            key = request.batch_key
            groups.setdefault(at if key is None else key, []).append(at)
        found: dict[int, DrawOutcome] = {}
        for places in groups.values():
            drawn = self._drawer.draw([requests[at] for at in places], stop.is_set)
            found.update(zip(places, drawn, strict=True))
        return [found[at] for at in range(len(requests))]


def place_of_replica() -> tuple[str, int]:
    """Return the name of this replica and the number of its GPU (0 without one)."""
    import ray  # pyright: ignore[reportMissingImports]
    from ray import serve  # pyright: ignore[reportMissingImports]

    context = serve.get_replica_context()
    cards = ray.get_gpu_ids()
    return context.replica_id.unique_id, int(cards[0]) if cards and str(cards[0]).isdigit() else 0


def model_replica(batch: int, batch_wait: float) -> type:
    """Return the class of a deployment with one model.

    Args:
        batch: Maximum number of requests in one call.
        batch_wait: Seconds that a request waits for others.
    """
    from ray import serve  # pyright: ignore[reportMissingImports]

    class ModelReplica:
        def __init__(self, open_drawer: OpenDrawer, model: ModelSettings, device: str) -> None:
            self._model = OneModel(open_drawer, model, device, *place_of_replica())

        async def info(self) -> ModelInfo:
            return self._model.info

        async def draw(self, request: ImageRequest) -> Answer:
            if batch > 1:
                return await self.draw_together(request)  # pyright: ignore[reportArgumentType, reportReturnType]
            return (await self._model.draw([request]))[0]

        @serve.batch(max_batch_size=batch, batch_wait_timeout_s=batch_wait)
        async def draw_together(self, requests: list[ImageRequest]) -> list[Answer]:
            return await self._model.draw(requests)

    return ModelReplica


def many_models_replica(at_once: int) -> type:
    """Return the class of a deployment whose replicas load the requested model and keep `at_once` of them."""
    from ray import serve  # pyright: ignore[reportMissingImports]

    class ManyModelsReplica:
        def __init__(self, open_drawer: OpenDrawer, models: Mapping[str, ModelSettings], device: str) -> None:
            self._open_drawer, self._models, self._device = open_drawer, models, device
            self._loader = ThreadPoolExecutor(1, thread_name_prefix="interleave-load")

        @serve.multiplexed(max_num_models_per_replica=at_once)
        async def loaded(self, name: str) -> OneModel:
            loop = asyncio.get_running_loop()
            given = (self._open_drawer, self._models[name], self._device, *place_of_replica())
            return await loop.run_in_executor(self._loader, OneModel, *given)

        async def _named(self) -> OneModel:
            load: Any = self.loaded
            return await load(serve.get_multiplexed_model_id())

        async def info(self) -> ModelInfo:
            return (await self._named()).info

        async def draw(self, request: ImageRequest) -> Answer:
            model = await self._named()
            return (await model.draw([request]))[0]

    return ManyModelsReplica

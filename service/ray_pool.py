"""The pool on a cluster: replicas of Ray Serve with one model each.

Serve places replicas, restarts dead ones, queues requests and chooses the replica. Only requests that this
app has handed over are counted here. The number of replicas is requested from Serve's controller once a
second in the background. Serve replaces a replica that is lost during a request, and this pool retries the
request: only once, since a request that kills two replicas would kill a third. A replica that loaded other
files than the first one is not used: two different images for one key would be worse than no image.

In a replica, images are generated in a thread of their own, so that it answers Serve's health checks. Errors
are returned as values, since Serve would wrap an exception with the traceback of another machine. The classes
are defined in functions, because their decorators belong to Serve, which may not be installed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any

from ..backend.core.errors import InterleaveError
from .pool import (
    Busy,
    DrawOutcome,
    DrawTimeout,
    GeneratedImage,
    ImageRequest,
    ModelInfo,
    OpenDrawer,
    UnknownModel,
    WorkerLost,
    WorkerPhase,
    WorkerState,
)
from .settings import ModelSettings, ServiceSettings

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


LOG = logging.getLogger("interleave_thinker.service")
LOOKED_EVERY = 1.0
MAX_ATTEMPTS = 2
BUSY_SECONDS = 2.0
PHASES: Mapping[str, WorkerPhase] = {"RUNNING": "alive", "STARTING": "loading", "UPDATING": "loading"}
GIVEN_UP = "DEPLOY_FAILED"
"""Status of a deployment whose replicas failed to start too often."""
LEAVING = ("STOPPING", "PENDING_MIGRATION")


class RayPool:
    """Generates with the replicas behind `handles`.

    Args:
        models: The models.
        handles: Handles by model name.
        settings: Settings of the service.
        app_name: Serve's name of the application.

    Attributes:
        not_loaded: Why models are not loaded yet, by name.
    """

    def __init__(
        self,
        models: Sequence[ModelSettings],
        handles: Mapping[str, Any],
        settings: ServiceSettings,
        app_name: str,
    ) -> None:
        self._models = {model.name: model for model in models}
        self._handles, self._settings, self._app_name = handles, settings, app_name
        self._infos = {model.name: ModelInfo(model.name) for model in models}
        self._at_work: Counter[str] = Counter()
        self._replicas: dict[str, list[tuple[WorkerPhase, str]]] = {}
        self._failed: dict[str, str] = {}
        self.not_loaded: dict[str, str] = {}
        self._drawn: Counter[str] = Counter()
        self._watch: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start to watch the replicas, which Serve has started."""
        self._watch = [asyncio.create_task(self._look_after()), asyncio.create_task(self._learn_of_models())]

    async def close(self) -> None:
        """Stop to watch the replicas. Serve ends them."""
        for task in self._watch:
            task.cancel()
        await asyncio.gather(*self._watch, return_exceptions=True)

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        """Implements `Pool.draw`."""
        if request.model not in self._models:
            raise UnknownModel(f"The model {request.model[:100]!r} is not served.")
        if failed := self._failed.get(request.model):
            raise Busy(f"No worker of {request.model!r} is alive: {failed}")
        self._at_work[request.model] += 1
        try:
            for attempt in range(MAX_ATTEMPTS):
                outcome = await self._asked(request, deadline)
                if isinstance(outcome, GeneratedImage):
                    self._drawn[request.model] += 1
                    return outcome
                if not isinstance(outcome, WorkerLost) or attempt + 1 == MAX_ATTEMPTS:
                    raise outcome
            raise AssertionError("unreachable")
        finally:
            self._at_work[request.model] -= 1

    async def _asked(self, request: ImageRequest, deadline: float) -> GeneratedImage | InterleaveError:
        from ray.exceptions import RayActorError, RayTaskError  # pyright: ignore[reportMissingImports]
        from ray.serve.exceptions import (  # pyright: ignore[reportMissingImports]
            BackPressureError,
            DeploymentUnavailableError,
            RayServeException,
        )

        response = self._handles[request.model].draw.remote(request)
        try:
            outcome, info = await asyncio.wait_for(_result(response), max(0.0, deadline - time.monotonic()))
        except (asyncio.TimeoutError, asyncio.CancelledError) as ended:
            response.cancel()
            if isinstance(ended, asyncio.CancelledError):
                raise
            loaded = bool(self._infos[request.model].identity)
            return DrawTimeout.of(request.model, loaded, self._settings.timeout)
        except BackPressureError:
            return Busy("The queue of the cluster is full.", retry_after=BUSY_SECONDS)
        except DeploymentUnavailableError:
            return Busy("No replica of the model is available.", "See `serve status`.", BUSY_SECONDS)
        except (RayActorError, RayServeException) as error:
            return WorkerLost(f"The replica was lost ({type(error).__name__}).")
        except RayTaskError as error:
            return WorkerLost(f"The replica failed ({type(error.cause or error).__name__}).")
        known = self._infos[request.model].identity
        if known and known != info.identity:
            return Busy("The model's files have changed: restart the service to use them.")
        self._infos[request.model] = info
        return outcome

    def models(self) -> Sequence[ModelInfo]:
        """Implements `Pool.models`."""
        return list(self._infos.values())

    def workers(self) -> Sequence[WorkerState]:
        """Implements `Pool.workers` with Serve's count of replicas.

        Serve shows their names only in its own status.
        """
        return [
            WorkerState(
                f"{name}-{number}", name, "ray", phase, reason=reason or self.not_loaded.get(name, "")
            )
            for name, replicas in self._replicas.items()
            for number, (phase, reason) in enumerate(replicas)
        ]

    def hopeless(self) -> str:
        """Return why no model can ever be loaded, or an empty text."""
        if self._failed.keys() != self._handles.keys():
            return ""
        return "; ".join(dict.fromkeys(self._failed.values()))

    def queued(self, model: str) -> int:
        """Implements `Pool.queued` for requests that this app has handed over."""
        return max(0, self._at_work[model] - self.capacity(model))

    def capacity(self, model: str) -> int:
        """Implements `Pool.capacity`."""
        replicas = self._replicas.get(model, [])
        return self._settings.batch * sum(phase == "alive" for phase, _ in replicas)

    async def _look_after(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(Exception):  # a boundary: the controller may be unavailable for a moment
                self._replicas = await loop.run_in_executor(None, self._replicas_now)
            await asyncio.sleep(LOOKED_EVERY)

    def _replicas_now(self) -> dict[str, list[tuple[WorkerPhase, str]]]:
        from ray import serve  # pyright: ignore[reportMissingImports]

        application = serve.status().applications.get(self._app_name)
        deployments = application.deployments if application else {}
        found: dict[str, list[tuple[WorkerPhase, str]]] = {}
        for name in self._handles:
            state = deployments.get(deployment_name(name))
            if state is None:
                continue
            reason = reason_of(state.message)
            for phase, count in state.replica_states.items():
                if phase not in LEAVING:
                    replica = (PHASES.get(phase, "dead"), reason)
                    found.setdefault(name, []).extend(replica for _ in range(count))
            if state.status == GIVEN_UP and not found.get(name):
                found[name] = [("dead", reason)]
                self._failed[name] = reason
        return found

    async def _learn_of_models(self) -> None:
        """Get the ModelInfo of every model, once a replica has loaded it."""
        await asyncio.gather(*map(self._learn_of, self._models))

    async def _learn_of(self, name: str) -> None:
        while not self._infos[name].identity:
            await self._learn_of_one(name)
            await asyncio.sleep(LOOKED_EVERY)

    async def _learn_of_one(self, name: str) -> None:
        longest = self._settings.load_timeout
        try:
            response = self._handles[name].info.remote()
            try:
                self._infos[name] = await asyncio.wait_for(_result(response), longest)
            except (asyncio.TimeoutError, asyncio.CancelledError):
                response.cancel()
                raise
            self.not_loaded.pop(name, None)
        except asyncio.TimeoutError:
            self.not_loaded[name] = f"The model {name!r} was not loaded within {longest:g} s."
            LOG.warning("%s Retrying.", self.not_loaded[name])
        except Exception as error:  # noqa: BLE001 - a boundary: a model that does not load is shown as such
            self.not_loaded[name] = f"The model {name!r} cannot be queried ({type(error).__name__})."


def reason_of(message: str) -> str:
    """Return the error in what Serve reports about a deployment, which may contain a traceback."""
    errors = re.findall(r"^[\w.]*(?:Error|Exception): (.+)", message, re.MULTILINE)
    return " ".join((errors[-1] if errors else message).split())[-600:]


async def _result(response: Any) -> Any:
    return await response


def deployment_name(model: str) -> str:
    """Return Serve's name of a model's deployment."""
    return f"model-{model}"

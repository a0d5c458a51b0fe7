"""The pool on one machine: a queue per model, and a child process per device of the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ...backend.errors import SettingsError
from ..drawer import Drawer
from ..pool import Busy, DrawTimeout, GeneratedImage, ImageRequest, ModelInfo, UnknownModel, WorkerState
from ..settings import ModelSettings, ServiceSettings
from .queue import ModelQueue, QueuedRequest
from .supervisor import Supervisor
from .worker import OpenDrawer

APART = 0.2
"""Seconds between the starts of two workers, because loading temporarily takes RAM."""


class ProcessPool:
    """Generates in child processes.

    Args:
        models: The models. The first one is the default.
        settings: Settings of the service.
        open_drawer: Loads a model in its child process.

    Raises:
        SettingsError: `models` is empty, or two have the same name.
    """

    def __init__(
        self,
        models: Sequence[ModelSettings],
        settings: ServiceSettings,
        open_drawer: OpenDrawer = Drawer.open,
    ) -> None:
        if not models:
            raise SettingsError("No model is given.", "Give one: --generator SPEC.")
        self._settings, self._open_drawer = settings, open_drawer
        self._models = {model.name: model for model in models}
        if len(self._models) < len(models):
            raise SettingsError("Two models have the same name.", "Give each model its own name.")
        wait = settings.batch_wait / 1000
        self._queues = {name: ModelQueue(settings.batch, wait) for name in self._models}
        self._workers: list[Supervisor] = []
        self._infos: dict[str, ModelInfo] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._waking: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start a process for each device of each model."""
        for model in self._models.values():
            for number, device in enumerate(model.devices):
                self._workers.append(self._worker(model, device, number))
        self._tasks = [
            asyncio.ensure_future(self._started(worker, place)) for place, worker in enumerate(self._workers)
        ]

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        """Implements `Pool.draw`."""
        queue = self._queues.get(request.model)
        if queue is None:
            raise UnknownModel(f"The model {request.model!r} is not served.")
        self._check_alive(request.model)
        waiting = QueuedRequest(request, asyncio.get_running_loop().create_future())
        await queue.add(waiting)
        try:
            await asyncio.wait({waiting.answer}, timeout=max(0.0, deadline - time.monotonic()))
            if not waiting.answer.done():
                raise DrawTimeout(f"{self._late(request.model)} within {self._settings.timeout:g} s.")
            return waiting.answer.result()
        finally:
            waiting.answer.cancel()
            queue.remove(waiting)

    def _late(self, model: str) -> str:
        if any(worker.phase == "alive" for worker in self._of(model)):
            return "The image was not generated"
        return f"The model {model!r} was not loaded"

    def models(self) -> Sequence[ModelInfo]:
        """Implements `Pool.models`."""
        return [self._infos.get(name) or _unloaded(model) for name, model in self._models.items()]

    def workers(self) -> Sequence[WorkerState]:
        """Implements `Pool.workers`."""
        return [worker.state for worker in self._workers]

    def processes(self) -> dict[str, int]:
        """Return the process ids of the running workers, by name."""
        return {worker.name: worker.pid for worker in self._workers if worker.pid is not None}

    def hopeless(self) -> str:
        """Return why no model can ever be loaded, or an empty text."""
        given_up = bool(self._workers) and all(worker.given_up for worker in self._workers)
        return _reasons(self.workers()) if given_up else ""

    def queued(self, model: str) -> int:
        """Implements `Pool.queued`."""
        return len(self._queues[model])

    def capacity(self, model: str) -> int:
        """Implements `Pool.capacity`."""
        info = self._infos.get(model)
        each = self._settings.batch if info and info.batches else 1
        return each * sum(worker.phase == "alive" for worker in self._of(model))

    async def close(self) -> None:
        """Implements `Pool.close`."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for queue in self._queues.values():
            queue.fail_all(Busy("The service is shutting down."))

    def _worker(self, model: ModelSettings, device: str, number: int) -> Supervisor:
        queue = self._queues[model.name]
        worker = Supervisor(model, device, number, queue, self._settings.timeout)
        worker.open_drawer, worker.load_timeout = self._open_drawer, self._settings.load_timeout
        worker.others = lambda: any(
            other is not worker and other.phase == "alive" for other in self._of(model.name)
        )
        worker.expected = lambda: self._infos.get(model.name)
        worker.when_changed = lambda: self._changed(worker)
        return worker

    async def _started(self, worker: Supervisor, place: int) -> None:
        await asyncio.sleep(APART * place)
        await worker.run()

    def _changed(self, worker: Supervisor) -> None:
        model = worker.model.name
        if worker.phase == "alive" and worker.info is not None:
            self._infos.setdefault(model, worker.info)
        try:
            self._check_alive(model)
        except Busy as error:
            self._queues[model].fail_all(error)
        # Requests that failed on another worker wait for this one, or for any worker if this one is gone.
        waking = asyncio.ensure_future(self._queues[model].wake())
        self._waking.add(waking)
        waking.add_done_callback(self._waking.discard)

    def _check_alive(self, model: str) -> None:
        states = [worker.state for worker in self._of(model)]
        if any(state.phase != "dead" for state in states):
            return
        pauses = [state.seconds_to_restart for state in states if state.seconds_to_restart]
        given_up = bool(states) and all(worker.given_up for worker in self._of(model))
        raise Busy(
            f"No worker of {model!r} is alive: {_reasons(states) or 'none was started.'}",
            retry_after=None if given_up else min(pauses, default=1.0),
        )

    def _of(self, model: str) -> list[Supervisor]:
        return [worker for worker in self._workers if worker.model.name == model]


def _reasons(states: Sequence[WorkerState]) -> str:
    return "; ".join(dict.fromkeys(state.reason for state in states if state.reason))


def _unloaded(model: ModelSettings) -> ModelInfo:
    return ModelInfo(name=model.name, kind=model.generator.partition(":")[0], port=model.port)

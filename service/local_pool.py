"""The pool of one process: every model has a queue and a thread that generates with it on one device.

Loading and generating block, so they run in a thread and HTTP stays responsive. A thread cannot be killed: a
model that does not answer is reported as dead until it answers, and a crash of the process ends the service,
which its supervisor (systemd, a container) restarts. For several devices use the Ray pool (`ray_pool.py`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from ..backend.core.errors import GeneratorError, InterleaveError, SettingsError, boundary
from .pool import (
    Busy,
    Drawer,
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

LOG = logging.getLogger("interleave_thinker.service")
FIRST_PAUSE, MAX_PAUSE = 0.25, 60.0
"""Seconds before a failed model is loaded again. The pause doubles with every failure."""
SHORT_PAUSE = 5.0
"""A model that is loaded again within this many seconds counts as loading, and its requests keep waiting."""
STUCK_SECONDS = 30.0
"""Seconds after the deadline until a model that does not answer counts as dead."""


@dataclass(eq=False)
class QueuedRequest:
    """A waiting request. A `retried` one is generated alone, so that it cannot affect others again."""

    request: ImageRequest
    answer: asyncio.Future[GeneratedImage]
    retried: bool = False

    def fail(self, error: InterleaveError) -> None:
        """Answer with an error."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def joins(self, first: QueuedRequest) -> bool:
        """Return whether the request may share a call with another one."""
        key = None if self.retried or first.retried else self.request.batch_key
        return self is first or (key is not None and key == first.request.batch_key)


class LocalPool:
    """Generates in threads of this process.

    Args:
        models: The models. The first one is the default. Each uses the first of its devices.
        settings: Settings of the service.
        open_drawer: Loads a model.

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
        self._workers = {model.name: ModelWorker(model, settings, open_drawer) for model in models}
        if len(self._workers) < len(models):
            raise SettingsError("Two models have the same name.", "Give each model its own name.")
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start to load the models."""
        self._tasks = [asyncio.ensure_future(worker.run()) for worker in self._workers.values()]

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        """Implements `Pool.draw`."""
        worker = self._workers.get(request.model)
        if worker is None:
            raise UnknownModel(f"The model {request.model[:100]!r} is not served.")
        if (dead := worker.unavailable()) is not None:
            raise dead
        waiting = QueuedRequest(request, asyncio.get_running_loop().create_future())
        worker.add(waiting)
        try:
            await asyncio.wait({waiting.answer}, timeout=max(0.0, deadline - time.monotonic()))
            if not waiting.answer.done():
                raise DrawTimeout.of(request.model, worker.phase == "alive", self._settings.timeout)
            return waiting.answer.result()
        finally:
            waiting.answer.cancel()
            worker.remove(waiting)

    def models(self) -> Sequence[ModelInfo]:
        """Implements `Pool.models`."""
        return [worker.info for worker in self._workers.values()]

    def workers(self) -> Sequence[WorkerState]:
        """Implements `Pool.workers`."""
        return [worker.state for worker in self._workers.values()]

    def hopeless(self) -> str:
        """Return why no model can ever be loaded, or an empty text."""
        workers = list(self._workers.values())
        if not all(worker.given_up for worker in workers):
            return ""
        return "; ".join(dict.fromkeys(worker.state.reason for worker in workers))

    def queued(self, model: str) -> int:
        """Implements `Pool.queued`."""
        return self._workers[model].queued

    def capacity(self, model: str) -> int:
        """Implements `Pool.capacity`."""
        worker = self._workers[model]
        return (self._settings.batch if worker.info.batches else 1) * (worker.phase == "alive")

    async def close(self) -> None:
        """Implements `Pool.close`. Models that can be interrupted stop their images."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


class ModelWorker:
    """Loads one model and processes the requests of its queue. Used in one event loop."""

    def __init__(self, model: ModelSettings, settings: ServiceSettings, open_drawer: OpenDrawer) -> None:
        self._model, self._settings, self._open_drawer = model, settings, open_drawer
        self._name = f"{model.name}#0 {model.devices[0]}"
        self._title = f"The model {model.name!r}"
        self.phase: WorkerPhase = "loading"
        self.info = ModelInfo(model.name)
        self.given_up = False
        self._reason, self._again_at = "", 0.0
        self._drawn, self._restarts = 0, 0
        self._queue: list[QueuedRequest] = []
        self._added = asyncio.Event()

    @property
    def state(self) -> WorkerState:
        """The state as shown by `/status`."""
        pause = max(0.0, self._again_at - time.monotonic()) if self._again_at else None
        return WorkerState(
            name=self._name,
            model=self._model.name,
            device=self._model.devices[0],
            phase=self.phase,
            drawn=self._drawn,
            restarts=self._restarts,
            reason=self._reason,
            seconds_to_restart=None if pause is None else round(pause, 2),
        )

    @property
    def queued(self) -> int:
        """Number of requests that wait."""
        return len(self._queue)

    def unavailable(self) -> Busy | None:
        """Return the error for all requests while the model is dead."""
        if self.phase != "dead":
            return None
        after = None if self.given_up else self.state.seconds_to_restart or 1.0
        return Busy(f"No worker of {self._model.name!r} is alive: {self._reason}", retry_after=after)

    def add(self, waiting: QueuedRequest) -> None:
        """Add a request; a retried one is the next."""
        self._queue.insert(0 if waiting.retried else len(self._queue), waiting)
        self._added.set()

    def remove(self, waiting: QueuedRequest) -> None:
        """Remove a request, if it is not being processed yet."""
        if waiting in self._queue:
            self._queue.remove(waiting)

    async def run(self) -> None:
        """Load the model and process requests until canceled, or until it can never be loaded."""
        thread = DaemonThread(self._name)
        try:
            drawer = await self._loaded(thread)
            while drawer is not None:
                await self._work(drawer, await self._next(drawer.info.batches), thread)
        finally:
            thread.end()
            self._fail(self._queue, self.unavailable() or Busy("The service is shutting down."))

    def _set(self, phase: WorkerPhase) -> None:
        self.phase = phase
        if (dead := self.unavailable()) is not None:
            self._fail(self._queue, dead)

    def _fail(self, waiting: list[QueuedRequest], error: InterleaveError) -> None:
        for one in waiting:
            one.fail(error)

    async def _loaded(self, thread: DaemonThread) -> Drawer | None:
        """Return the loaded model, or None if its settings are wrong. Other failures are tried again."""
        pause = FIRST_PAUSE
        while True:
            try:
                limit = self._settings.load_timeout
                late = f"{self._title} was not loaded within {limit:g} s."
                drawer = await self._answered(thread.start(self._open), limit, late)
            except SettingsError as error:
                self._reason, self.given_up = str(error), True
                self._set("dead")
                LOG.error("%s: %s It is not loaded again.", self._name, self._reason)
                return None
            except InterleaveError as error:
                self._reason = str(error)
            else:
                self.info = drawer.info
                self._set("alive")
                LOG.info("%s: ready.", self._name)
                return drawer
            LOG.warning("%s: %s Loading it again in %g s.", self._name, self._reason, pause)
            self._again_at = time.monotonic() + pause
            self._set("loading" if pause <= SHORT_PAUSE else "dead")
            await asyncio.sleep(pause)
            self._again_at, pause = 0.0, min(MAX_PAUSE, 2 * pause)
            self._restarts += 1

    def _open(self) -> Drawer:
        with boundary(GeneratorError, f"Cannot load the model {self._model.name!r}"):
            return self._open_drawer(self._model, self._model.devices[0], self._name, 0)

    async def _answered(self, work: asyncio.Future[Any], limit: float, late: str) -> Any:
        """Return the result of the thread. While it is late, the model counts as dead."""
        await asyncio.wait({work}, timeout=limit)
        if not work.done():
            LOG.error("%s: %s Restart the service if this lasts.", self._name, late)
            self._reason = late
            self._set("dead")
        return await work

    async def _next(self, batches: bool) -> list[QueuedRequest]:
        """Wait for requests, and take those that share the next call."""
        since = time.monotonic()
        while True:
            self._queue = [one for one in self._queue if not one.answer.done()]
            self._added.clear()
            if not self._queue:
                await self._added.wait()
                since = time.monotonic()
                continue
            first = self._queue[0]
            alone = not batches or first.retried or first.request.batch_key is None
            most = 1 if alone else self._settings.batch
            taken = [one for one in self._queue if one.joins(first)][:most]
            left = since + self._settings.batch_wait / 1000 - time.monotonic()
            if len(taken) < most and left > 0:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._added.wait(), left)
                continue
            self._queue = [one for one in self._queue if one not in taken]
            return taken

    async def _work(self, drawer: Drawer, batch: list[QueuedRequest], thread: DaemonThread) -> None:
        requests = [one.request for one in batch]
        limit = self._settings.timeout + STUCK_SECONDS
        late = f"{self._title} has not answered for {limit:g} s."
        try:
            # The answers are done when no client waits any more.
            work = thread.start(
                lambda: drawer.draw(requests, lambda: all(one.answer.done() for one in batch))
            )
            outcomes = await self._answered(work, limit, late)
        except asyncio.CancelledError:
            self._fail(batch, Busy("The service is shutting down."))
            raise
        except Exception as error:  # a boundary: the failure of one call ends no other
            LOG.exception("%s: the call failed.", self._name)
            outcomes = [WorkerLost(f"{self._title} failed ({type(error).__name__}).") for _ in batch]
        self._set("alive")
        for one, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, GeneratedImage):
                self._drawn += 1
                if not one.answer.done():
                    one.answer.set_result(outcome)
            elif isinstance(outcome, WorkerLost) and not one.retried:
                self._reason = outcome.message
                LOG.warning("%s: %s", self._name, outcome.message)
                one.retried = True
                self.add(one)
            else:
                one.fail(outcome)


class DaemonThread:
    """A thread that does one thing after another, and does not delay the end of the process."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def start(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Return the future result of the work."""
        done: Future[Any] = Future()
        self._work.put((work, done))
        return asyncio.wrap_future(done)

    def end(self) -> None:
        """End the thread after its current work."""
        self._work.put(None)

    def _run(self) -> None:
        while (one := self._work.get()) is not None:
            work, done = one
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - a boundary: the caller gets it
                done.set_exception(error)

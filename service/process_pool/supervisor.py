"""Supervises the child process of a device: starts it, sends it requests, and restarts it when it dies.

The pause before a restart grows while the worker generates nothing, so that a broken GPU is not restarted
endlessly and a single crash costs only a moment. A model with invalid settings is not retried. A model that
comes back with another identity (its files were changed) is not used: two different images for one key would
be worse than one worker less.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TypeVar

from ..drawer import Drawer
from ..pool import (
    Busy,
    GeneratedImage,
    ModelInfo,
    Refused,
    ServiceError,
    WorkerLost,
    WorkerPhase,
    WorkerState,
)
from ..settings import ModelSettings, ServiceSettings
from .queue import ModelQueue, QueuedRequest
from .worker import DrawJob, DrawJobResult, ModelLoaded, ModelNotLoaded, OpenDrawer, StopJob, main

LOG = logging.getLogger("interleave_thinker.service")
Result = TypeVar("Result")

FIRST_PAUSE, MAX_PAUSE = 0.25, 60.0
SHORT_PAUSE = 5.0
"""A worker that restarts within this many seconds counts as loading, and its requests keep waiting."""
STUCK_SECONDS = 30.0
"""Seconds after the deadline until a worker that does not answer is ended."""
MAX_ATTEMPTS = 2


class ProcessDied(Exception):
    """The process ended unexpectedly. `str` describes how."""


class Supervisor:
    """Keeps one worker alive and hands it requests from its model's queue.

    Attributes:
        others: Returns whether another worker of the model is alive.
        expected: Returns what the model's first worker has loaded, None before.
    """

    def __init__(
        self, model: ModelSettings, device: str, gpu: int, queue: ModelQueue, timeout: float
    ) -> None:
        self.model, self.device, self.gpu = model, device, gpu
        self.name = f"{model.name}#{gpu} {device}"
        self.phase: WorkerPhase = "loading"
        self.info: ModelInfo | None = None
        self.given_up = False
        self.others: Callable[[], bool] = lambda: False
        self.expected: Callable[[], ModelInfo | None] = lambda: None
        self.when_changed: Callable[[], None] = lambda: None
        self.open_drawer: OpenDrawer = Drawer.open
        self.load_timeout = ServiceSettings().load_timeout
        self._queue, self._timeout = queue, timeout
        self._reason, self._again_at = "", 0.0
        self._drawn, self._restarts, self._failures, self._job = 0, 0, 0, 0
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._threads = ThreadPoolExecutor(2, thread_name_prefix=self.name)

    @property
    def state(self) -> WorkerState:
        """The state as shown by `/status`."""
        pause = max(0.0, self._again_at - time.monotonic()) if self._again_at else None
        return WorkerState(
            name=self.name,
            model=self.model.name,
            device=self.device,
            phase=self.phase,
            drawn=self._drawn,
            restarts=self._restarts,
            reason=self._reason,
            seconds_to_restart=None if pause is None else round(pause, 2),
        )

    @property
    def pid(self) -> int | None:
        """Id of the running process, or None."""
        return self._process.pid if self._process else None

    async def run(self) -> None:
        """Keep the worker alive until canceled, or until its model can never be loaded."""
        try:
            while True:
                lasting = await self._live()
                if lasting and self.info is None:
                    self.given_up = True
                    self._set("dead")
                    LOG.error("%s: %s The worker is not restarted.", self.name, self._reason)
                    return
                self._failures += 1
                pause = min(MAX_PAUSE, FIRST_PAUSE * 2 ** (self._failures - 1))
                pause = MAX_PAUSE if lasting else pause
                self._set("loading" if pause <= SHORT_PAUSE and not lasting else "dead")
                LOG.warning("%s: %s Restarting the worker in %g s.", self.name, self._reason, pause)
                self._again_at = time.monotonic() + pause
                await asyncio.sleep(pause)
                self._again_at = 0.0
                self._restarts += 1
        finally:
            self._end()
            self._threads.shutdown(wait=False)

    async def _live(self) -> bool:
        """Run the process once, and return whether its end would repeat itself. Records the reason."""
        if self.phase != "dead":
            self._set("loading")
        try:
            await self._in_thread(self._start)
            loaded = await self._loaded()
            if isinstance(loaded, ModelNotLoaded):
                self._reason = loaded.reason
                return loaded.lasting
            assert isinstance(loaded, ModelLoaded)
            expected = self.expected()
            if expected is not None and expected.identity != loaded.info.identity:
                self._reason = "The model's files have changed: restart the service to use them."
                return True
            self.info = loaded.info
            self._set("alive")
            LOG.info("%s: ready.", self.name)
            while True:
                await self._work(loaded.info)
        except ProcessDied as error:
            self._reason = str(error)
            return False
        finally:
            self._end()

    async def _loaded(self) -> object:
        """Return what the process reports after loading its model. Raises ProcessDied."""
        longest = self.load_timeout
        try:
            return await asyncio.wait_for(self._receive(), longest)
        except asyncio.TimeoutError:
            raise ProcessDied(f"The model {self.model.name!r} was not loaded within {longest:g} s.") from None

    def _set(self, phase: WorkerPhase) -> None:
        self.phase = phase
        self.when_changed()

    async def _work(self, info: ModelInfo) -> None:
        """Process the next requests. Raises ProcessDied."""
        batch = await self._queue.next(self._may_take, info.batches)
        begun = time.monotonic()
        try:
            outcomes = await self._asked(batch)
        except ProcessDied as error:
            self._set("loading")
            for one in batch:
                await self._failed(one, WorkerLost(f"The worker was lost during this request: {error}"))
            raise
        except asyncio.CancelledError:
            for one in batch:
                one.fail(Busy("The service is shutting down."))
            raise
        for one, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, WorkerLost):
                self._reason = outcome.message
                LOG.warning("%s: %s", self.name, outcome.message)
                await self._failed(one, outcome)
            elif isinstance(outcome, ServiceError):
                one.fail(outcome)
            else:
                self._failures = 0
                self._drawn += 1
                self._answer(one, outcome, begun)

    def _answer(self, one: QueuedRequest, drawn: GeneratedImage, begun: float) -> None:
        from dataclasses import replace

        if not one.answer.done():
            one.answer.set_result(replace(drawn, waited_seconds=begun - one.since))

    def _may_take(self, waiting: QueuedRequest) -> bool:
        return self.name not in waiting.failed_at or not self.others()

    async def _failed(self, one: QueuedRequest, error: WorkerLost) -> None:
        one.failed_at = (*one.failed_at, self.name)
        if len(one.failed_at) >= MAX_ATTEMPTS:
            one.fail(error)
        elif not one.given_up:
            await self._queue.add(one, first=True)

    async def _asked(self, batch: list[QueuedRequest]) -> list[GeneratedImage | ServiceError]:
        """Return the results of the process for a batch. Raises ProcessDied."""
        self._job += 1
        nobody = asyncio.Event()

        def look(_: object) -> None:
            if all(one.given_up for one in batch):
                nobody.set()

        for one in batch:
            one.answer.add_done_callback(look)
        await self._send(DrawJob(self._job, tuple(one.request for one in batch)))
        answer = asyncio.ensure_future(self._receive())
        gone = asyncio.ensure_future(nobody.wait())
        try:
            longest = self._timeout + STUCK_SECONDS
            await asyncio.wait({answer, gone}, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and gone.done():
                await self._send(StopJob(self._job))
                await asyncio.wait({answer}, timeout=longest)
            if not answer.done():
                raise ProcessDied(f"The worker did not answer for {longest:g} s.")
            done = answer.result()
        finally:
            gone.cancel()
            answer.cancel()
        if not isinstance(done, DrawJobResult) or done.number != self._job:
            raise ProcessDied("The worker sent an unexpected answer.")
        if len(done.outcomes) != len(batch):
            return [Refused("The worker returned a wrong number of images.") for _ in batch]
        return list(done.outcomes)

    def _start(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, far = spawning.Pipe()
        process = spawning.Process(
            target=main,
            args=(far, self.open_drawer, self.model, self.device, self.name, self.gpu),
            daemon=True,
        )
        try:
            process.start()
        except OSError as error:
            raise ProcessDied(f"The worker cannot be started ({error}).") from error
        finally:
            far.close()
        self._process = process

    def _end(self) -> None:
        pipe, process = self._pipe, self._process
        self._pipe = self._process = None
        if process is not None:
            process.kill()
        if pipe is not None:
            pipe.close()

    async def _send(self, message: object) -> None:
        pipe = self._pipe
        assert pipe is not None
        try:
            await self._in_thread(pipe.send, message)
        except (OSError, ValueError) as error:
            raise ProcessDied(self._how_it_ended()) from error

    async def _receive(self) -> object:
        pipe = self._pipe
        assert pipe is not None
        try:
            return await self._in_thread(pipe.recv)
        except (EOFError, OSError) as error:
            raise ProcessDied(self._how_it_ended()) from error

    def _how_it_ended(self) -> str:
        process = self._process
        if process is None:
            return "The worker's process ended."
        process.join(1.0)
        code = process.exitcode
        if code is None:
            return "The worker closed its pipe."
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return f"The worker's process ended ({how})."

    async def _in_thread(self, work: Callable[..., Result], *values: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *values)

"""Runs the same work on many items: in threads of this process, or on Ray.

`open_work` is called once in every worker process, opens what the work needs, and returns a function of one
item. On Ray it is sent to the workers, so it is small and can be pickled. Only this module imports `ray`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from ....backend.core.errors import InterleaveError, SettingsError
from ....backend.core.remote.addresses import ADDRESS_HINT, check_ray_address

HERE = "local"
MAX_ATTEMPTS = 4
"""Number of workers that may die at one item before it is reported as lost."""
STORE_BYTES = 200 * 1024 * 1024
"""Object store of a Ray that is started here; items and results are small."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Stop:
    """Tells all threads of a map to start no more work."""

    def __init__(self) -> None:
        self.reason = ""

    def set(self, reason: str) -> None:
        """Stop; the first reason is kept."""
        self.reason = self.reason or reason


OpenWork = Callable[[Stop], Callable[[Item], Result]]


@dataclass(frozen=True)
class Done(Generic[Item, Result]):
    """Result of an item; `lost` is the reason if every worker that had the item died."""

    item: Item
    result: Result | None = None
    lost: str = ""


class Executor:
    """Runs work on many items."""

    def map(
        self, open_work: OpenWork[Item, Result], items: Iterable[Item], stop: Stop
    ) -> Iterator[Done[Item, Result]]:
        """Yield the results as they are ready, each once.

        A limited number of items is started at a time, and none after `stop` is set. Exceptions of the work
        are raised. Closing the iterator stops the work.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class ThreadExecutor(Executor):
    """Runs up to `parallel` items at a time in threads, which share what the work opened."""

    parallel: int = 1

    def map(
        self, open_work: OpenWork[Item, Result], items: Iterable[Item], stop: Stop
    ) -> Iterator[Done[Item, Result]]:
        """Yield results as `Executor.map`."""
        work, source, begun = open_work(stop), iter(items), {}
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="work") as pool:
            try:
                while True:
                    room = 0 if stop.reason else self.parallel - len(begun)
                    begun |= {pool.submit(work, item): item for item in islice(source, room)}
                    if not begun:
                        return
                    for future in wait(begun, return_when=FIRST_COMPLETED).done:
                        yield Done(begun.pop(future), future.result())
            finally:
                # The iterator was closed, or a worker raised: the others end at their next event.
                if begun:
                    stop.set("stopped")


class _Worker:
    """Worker in a process of Ray, which restarts it if it dies."""

    def __init__(self, open_work: Any, folder: str) -> None:
        with suppress(OSError):  # a folder of the command's machine alone
            os.chdir(folder)
        self._open, self._work, self._lock = open_work, None, threading.Lock()

    def start(self) -> None:
        """Return once the worker has started."""

    def run(self, item: Any) -> tuple[Any, InterleaveError | None]:
        """Return the result of an item, or the error of the work."""
        try:
            with self._lock:
                self._work = self._work or self._open(Stop())
            return self._work(item), None
        except InterleaveError as error:
            return None, error


@dataclass(frozen=True)
class RayExecutor(Executor):
    """Runs work on Ray with `workers` processes, each with `parallel` items at a time.

    `address` is "local" (starts Ray here), "auto" (the cluster of this machine) or the address of a cluster.
    Ray restarts a worker that dies, wherever there is room, and gives it its items again. When the map ends
    early, the workers are killed; what they had finished of an item is in the item's own records.
    """

    workers: int = 2
    parallel: int = 1
    address: str = HERE

    def map(
        self, open_work: OpenWork[Item, Result], items: Iterable[Item], stop: Stop
    ) -> Iterator[Done[Item, Result]]:
        """Yield results as `Executor.map`.

        Raises:
            SettingsError: Ray is not installed, or the cluster cannot be reached.
        """
        ray, is_ours = self._connected()
        options = {"max_concurrency": self.parallel, "max_restarts": -1, "max_task_retries": MAX_ATTEMPTS - 1}
        kind = ray.remote(_Worker).options(num_cpus=1, **options)
        actors = [kind.remote(open_work, os.getcwd()) for _ in range(self.workers)]
        # Items go to workers that have started: a cluster may have room for fewer.
        starting = {actor.start.remote(): actor for actor in actors}
        begun, free, source = dict[Any, tuple[Any, Item]](), list[Any](), iter(items)
        try:
            while not stop.reason:
                for item in islice(source, len(free)):
                    actor = free.pop(0)
                    begun[actor.run.remote(item)] = actor, item
                if free and not begun:
                    return
                ready, _ = ray.wait([*begun, *starting], timeout=1.0)
                for reference in ready:
                    if reference in starting:
                        free += [starting.pop(reference)] * self.parallel
                        continue
                    actor, item = begun.pop(reference)
                    free.append(actor)
                    yield self._done(ray, reference, item)
        finally:
            if begun:
                stop.set("stopped")
            for actor in actors:
                ray.kill(actor)
            if is_ours:
                ray.shutdown()

    def _done(self, ray: Any, reference: Any, item: Item) -> Done[Item, Any]:
        try:
            result, error = ray.get(reference)
        except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
            return Done(
                item, lost=f"{MAX_ATTEMPTS} workers died while processing it ({type(error).__name__})"
            )
        if error is not None:
            raise error
        return Done(item, result)

    def _connected(self) -> tuple[Any, bool]:
        """Return Ray, and whether it was started here."""
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            hint = 'Install it: pip install "interleave-thinker[ray]"'
            raise SettingsError("Ray is not installed.", hint) from error
        if ray.is_initialized():
            return ray, False
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        here = {"num_cpus": self.workers, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        try:
            if self.address != HERE:
                check_ray_address(self.address)
            more = here if self.address == HERE else {}
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", **more)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            raise SettingsError(f"Cannot use Ray at {self.address!r} ({error}).", ADDRESS_HINT) from error
        return ray, True

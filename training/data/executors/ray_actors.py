"""Runs jobs on a Ray cluster, with actors that open the job once and process items one by one.

Items take minutes and differ in duration, so they are not assigned in blocks. An actor that dies is replaced
wherever there is room, and its items are assigned again; what it had finished is in the items' own records,
so no checkpoint is needed. Workers change to the current folder of the command, if their machine has it, so
that relative paths mean the same files. Only this module and `ray_cancel` import `ray`.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic

from ....backend.errors import InterleaveError, SettingsError
from ....backend.remote.addresses import ADDRESS_HINT, check_ray_address
from . import MAX_ATTEMPTS, CancelToken, Item, ItemResult, Job, LocalCancelToken, Result
from .ray_cancel import LOOKED_EVERY, Board, RayCancelToken

HOW_TO_GET = 'Install it: pip install "interleave-thinker[ray]"'
STARTED_HERE = "local"
STORE_BYTES = 200 * 1024 * 1024
"""Size in bytes of the object store of a cluster that is started here; items and results are small."""
REPORTED_EVERY = 60.0
"""Seconds between two warnings that no worker has started."""
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RayExecutor:
    """Runs jobs with `actors` workers, each with `parallel` items at a time.

    `address` is "local" (starts Ray here), "auto" (the cluster of this machine) or the address of a cluster;
    `cpus` is the number of CPUs of each actor.
    """

    actors: int = 2
    parallel: int = 1
    address: str = STARTED_HERE
    cpus: float = 1.0

    def map(
        self,
        job: Job[Item, Result],
        items: Iterable[Item],
        key: Callable[[Item], str],
        stop: LocalCancelToken,
    ) -> Iterator[ItemResult[Result]]:
        """Yield results as `Executor.map`.

        Raises:
            SettingsError: Ray is not installed, or the cluster cannot be reached.
        """
        ray = _ray()
        started = not ray.is_initialized()
        if started:
            _start(ray, self.address, self.actors, self.cpus)
        board = Board(ray, stop)
        worker = ray.remote(_Worker).options(num_cpus=self.cpus, max_concurrency=self.parallel)
        here = os.getcwd()
        handed_out = _HandedOut(ray, lambda: worker.remote(job, board.handle, here), self, board)
        try:
            yield from handed_out.all(items, key)
        finally:
            stop.stop("stopped")
            handed_out.end()
            if started:
                ray.shutdown()


class _Worker(Generic[Item, Result]):
    """Worker in an actor's process. `folder` is the current folder of the command."""

    def __init__(self, job: Job[Item, Result], board: Any, folder: str) -> None:
        with suppress(OSError):  # a folder of the command's machine alone
            os.chdir(folder)
        self._job, self._board = job, board
        self._function: Callable[[Item], Result] | None = None
        self._fault: InterleaveError | None = None
        try:
            self._function = job.open(RayCancelToken(board))
        except InterleaveError as error:
            # An actor whose constructor fails is only reported as dead; this one reports the reason.
            self._fault = error

    def is_there(self) -> bool:
        """Return whether the actor has started."""
        return True

    def run(self, item: Item) -> tuple[Result | None, tuple[str, str] | None]:
        """Return (result, None), or (None, message and hint) if the job could not be opened."""
        if self._function is None:
            assert self._fault is not None
            return None, (self._fault.message, self._fault.hint)
        return self._function(item), None


class _HandedOut:
    """Tracks which actor has which item.

    Items go to actors that have started: a cluster may have room for fewer than requested, or lose a machine.
    An actor that died is replaced.
    """

    def __init__(self, ray: Any, new_actor: Callable[[], Any], sizes: RayExecutor, board: Board) -> None:
        self._ray, self._new_actor, self._parallel, self._board = ray, new_actor, sizes.parallel, board
        self._actors = [new_actor() for _ in range(sizes.actors)]
        self._coming = {actor.is_there.remote(): place for place, actor in enumerate(self._actors)}
        self._begun: dict[Any, tuple[int, Any, Any]] = {}
        self._again: deque[Any] = deque()
        self._stillborn = 0
        self._sizes = sizes
        self._idle_since = time.monotonic()

    def all(self, items: Iterable[Item], key: Callable[[Item], str]) -> Iterator[ItemResult[Any]]:
        """Yield the results as they are ready."""
        source, deaths = iter(items), Counter[str]()
        while True:
            self._hand_out(source)
            if not self._begun and (self._board.reason() or len(self._coming) < len(self._actors)):
                return
            waited_for = [*self._begun, *self._coming]
            ready, _ = self._ray.wait(waited_for, num_returns=1, timeout=LOOKED_EVERY)
            if ready or self._begun:
                self._idle_since = time.monotonic()
            else:
                self._report_idle()
            for reference in ready:
                if reference in self._coming:
                    self._arrived(reference)
                    continue
                place, actor, item = self._begun.pop(reference)
                try:
                    result, fault = self._ray.get(reference)
                except (
                    self._ray.exceptions.RayActorError,
                    self._ray.exceptions.ObjectLostError,  # a large result, lost with its machine
                ) as error:
                    if self._actors[place] is actor:
                        self._replace(place)
                    deaths[key(item)] += 1
                    if deaths[key(item)] < MAX_ATTEMPTS:
                        self._again.append(item)
                    else:
                        lost = f"{MAX_ATTEMPTS} workers died while processing it ({type(error).__name__})"
                        yield ItemResult(key(item), lost=lost)
                    continue
                except self._ray.exceptions.RayTaskError as error:
                    raise error.as_instanceof_cause() from error
                if fault is not None:
                    raise SettingsError(*fault)
                yield ItemResult(key(item), result)

    def end(self) -> None:
        """Kill the actors, which would otherwise stay on the cluster."""
        for actor in self._actors:
            self._ray.kill(actor)

    def _arrived(self, reference: Any) -> None:
        place = self._coming.pop(reference)
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            self._stillborn += 1
            if self._stillborn >= MAX_ATTEMPTS:
                raise SettingsError(
                    f"{MAX_ATTEMPTS} workers died before they could start ({type(error).__name__}).",
                    "See Ray's own logs. A machine may have too little RAM, or lack the package.",
                ) from error
            self._replace(place)
        else:
            self._stillborn = 0

    def _report_idle(self) -> None:
        """Warn if no worker has started for a while, which Ray itself reports only in its logs."""
        if time.monotonic() - self._idle_since < REPORTED_EVERY:
            return
        self._idle_since = time.monotonic()
        there = self._ray.cluster_resources().get("CPU", 0)
        free = self._ray.available_resources().get("CPU", 0)
        LOG.warning(
            "No Ray worker has started for %g s. Each needs %g CPUs; %g of the cluster's %g are free.",
            REPORTED_EVERY,
            self._sizes.cpus,
            free,
            there,
        )

    def _replace(self, place: int) -> None:
        # An actor that cannot be reached may still be working.
        self._ray.kill(self._actors[place])
        self._actors[place] = self._new_actor()
        self._coming[self._actors[place].is_there.remote()] = place

    def _hand_out(self, source: Iterator[Any]) -> None:
        if self._board.reason():
            return
        busy = Counter(place for place, _, _ in self._begun.values())
        absent = set(self._coming.values())
        for place, actor in enumerate(self._actors):
            for _ in range(0 if place in absent else self._parallel - busy[place]):
                item = self._again.popleft() if self._again else next(source, None)
                if item is None:
                    return
                self._begun[actor.run.remote(item)] = place, actor, item


def _ray() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
        import ray.util.scheduling_strategies  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise SettingsError("Ray is not installed.", HOW_TO_GET) from error
    return ray


def _start(ray: Any, address: str, actors: int, cpus: float) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if address == STARTED_HERE:
            most = max(1, round(actors * cpus))
            ray.init(
                address="local",
                num_cpus=most,
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
            )
        else:
            check_ray_address(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise SettingsError(
            f"Cannot use Ray at {address!r} ({type(error).__name__}: {error}).",
            ADDRESS_HINT,
        ) from error


__all__ = ["HOW_TO_GET", "STARTED_HERE", "CancelToken", "RayExecutor"]

"""Many units of work carried out side by side: one seam, executors behind it.

Decision: who hands work out knows nothing of what the work is. A `Job` is what travels (small and picklable);
it opens whatever it needs where the work is done, once, and gives a function of one item. Results come as
they are ready, so whoever needs an order sorts them. Stopping is one sign that all workers look at: the
deadline, the money spent and a person's Ctrl-C are the same thing to them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
ItemIn = TypeVar("ItemIn", contravariant=True)
ResultOut = TypeVar("ResultOut", covariant=True)

MAX_ATTEMPTS = 4
"""Workers that may die at one item before it is given back as lost; items beside a deadly one die with
it."""


class CancelToken(Protocol):
    """What all workers of one map look at."""

    def reason(self) -> str:
        """Why no more is to be begun, empty as long as there is no reason."""
        ...

    def add(self, cost: float) -> None:
        """Something was spent."""
        ...


class LocalCancelToken:
    """The sign of one process: set by hand, after `seconds`, or once `budget` is spent (`spent` was before).
    None: no limit."""

    def __init__(self, seconds: float | None = None, budget: float | None = None, spent: float = 0.0) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self._budget, self._spent = budget, spent
        self._reason = ""
        self._lock = threading.Lock()

    def reason(self) -> str:
        if not self._reason and self._until is not None and time.monotonic() >= self._until:
            self.stop("the time is up")
        if not self._reason and self._budget is not None and self._spent >= self._budget:
            self.stop("the budget is spent")
        return self._reason

    def add(self, cost: float) -> None:
        with self._lock:
            self._spent += cost

    def spent(self) -> float:
        """The sum of all costs."""
        return self._spent

    def stop(self, reason: str) -> None:
        """Set the sign; the first reason stays."""
        with self._lock:
            self._reason = self._reason or reason


@dataclass(frozen=True)
class ItemResult(Generic[Result]):
    """An item that was carried out; `lost`: why it was not, where every worker that had it died."""

    key: str
    result: Result | None = None
    lost: str = ""


class Job(Protocol[ItemIn, ResultOut]):
    """What is to be done with every item; it travels to the workers, so it can be pickled."""

    def open(self, stop: CancelToken) -> Callable[[ItemIn], ResultOut]:
        """Get ready where the work is done. The function is called from several threads at once, and returns
        soon after the sign is set. Raises InterleaveError."""
        ...


class Executor(Protocol):
    """Carries out a job on many items."""

    def map(
        self,
        job: Job[Item, Result],
        items: Iterable[Item],
        key: Callable[[Item], str],
        stop: LocalCancelToken,
    ) -> Iterator[ItemResult[Result]]:
        """The results as they come, each once; a bounded number of items is begun at a time, none after
        `stop` is set. What `job` or its function raises is raised here. Closing it stops the work."""
        ...

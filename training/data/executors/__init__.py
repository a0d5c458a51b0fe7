"""Interface for parallel work on many items; the executors are in the modules.

The caller does not need to know what the work is. A `Job` is sent to the workers (small and picklable). It
opens what it needs once per worker, and returns a function of one item. Results come in the order in which
they are ready. All workers watch one cancel token, which is set by a deadline, a spent budget or Ctrl-C.
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
"""Number of workers that may die at one item before it is reported as lost."""


class CancelToken(Protocol):
    """Cancel token that all workers of one map watch."""

    def reason(self) -> str:
        """Return why no more items may be started, or an empty text."""
        ...

    def add(self, cost: float) -> None:
        """Add a cost to the spent budget."""
        ...


class LocalCancelToken:
    """Cancel token of one process: set manually, after `seconds`, or when `budget` is spent.

    `spent` is the cost before the start. None: no limit.
    """

    def __init__(self, seconds: float | None = None, budget: float | None = None, spent: float = 0.0) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self._budget, self._spent = budget, spent
        self._reason = ""
        self._lock = threading.Lock()

    def reason(self) -> str:
        """Return why no more items may be started, or an empty text."""
        if not self._reason and self._until is not None and time.monotonic() >= self._until:
            self.stop("the time limit was reached")
        if not self._reason and self._budget is not None and self._spent >= self._budget:
            self.stop("the budget was spent")
        return self._reason

    def add(self, cost: float) -> None:
        """Add a cost to the spent budget."""
        with self._lock:
            self._spent += cost

    def spent(self) -> float:
        """Return the total cost."""
        return self._spent

    def stop(self, reason: str) -> None:
        """Set the token; the first reason is kept."""
        with self._lock:
            self._reason = self._reason or reason


@dataclass(frozen=True)
class ItemResult(Generic[Result]):
    """Result of an item; `lost` is the reason if every worker that had the item died."""

    key: str
    result: Result | None = None
    lost: str = ""


class Job(Protocol[ItemIn, ResultOut]):
    """Work to do with every item; it is sent to the workers, so it can be pickled."""

    def open(self, stop: CancelToken) -> Callable[[ItemIn], ResultOut]:
        """Prepare the work in a worker, and return the function for an item.

        The function is called from several threads, and returns soon after the token is set.

        Raises:
            InterleaveError: The work cannot be prepared.
        """
        ...


class Executor(Protocol):
    """Runs a job on many items."""

    def map(
        self,
        job: Job[Item, Result],
        items: Iterable[Item],
        key: Callable[[Item], str],
        stop: LocalCancelToken,
    ) -> Iterator[ItemResult[Result]]:
        """Yield the results as they are ready, each once.

        A limited number of items is started at a time, and none after `stop` is set. Exceptions of `job` and
        its function are raised. Closing the iterator stops the work.
        """
        ...

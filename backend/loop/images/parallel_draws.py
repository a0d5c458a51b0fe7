"""Images that are generated at the same time, by a generator with several workers.

They are started together and fetched one after another, each under its own key. So a run on ten services has
the same result as a run on one, only faster. Leaving the context stops what is still being generated, and
none of it is stored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")


class ParallelDraws(Generic[Key, Made]):
    """Pending results by key. `over` is set when the rest is no longer needed."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self._begun: dict[Key, Future[Made]] = {}

    def begin(self, make: Callable[[Key], Made], keys: Sequence[Key], at_once: int) -> None:
        """Start to make all results, `at_once` at a time. `make` should return early once `over` is set."""
        pool = ThreadPoolExecutor(min(at_once, len(keys)), thread_name_prefix="draws side by side")
        self._begun = {key: pool.submit(make, key) for key in keys}
        pool.shutdown(wait=False)

    def take(self, key: Key) -> Made | None:
        """Return the result for a key, waiting for it; `None` for an unknown key.

        Any exception of `make` is raised again.
        """
        begun = self._begun.pop(key, None)
        return None if begun is None else begun.result()

    def discard(self) -> None:
        """Stop and discard the results that were not fetched."""
        self.over.set()
        for one in self._begun.values():
            one.cancel()
        self._begun = {}

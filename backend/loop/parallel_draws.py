"""Draws that are made at the same time, by a generator behind which several work.

Decision: they are begun together and asked for one after another, each under its own key, so that a run over
ten services is the run over one, only sooner. Who leaves them stops what is still being drawn: nothing of it
is remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")


class ParallelDraws(Generic[Key, Made]):
    """What is being made under keys. `over` is set once nobody wants the rest."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self._begun: dict[Key, Future[Made]] = {}

    def begin(self, make: Callable[[Key], Made], keys: Sequence[Key], at_once: int) -> None:
        """Begin to make all of them, so many at a time; `make` ends early once `over` is set."""
        pool = ThreadPoolExecutor(min(at_once, len(keys)), thread_name_prefix="draws side by side")
        self._begun = {key: pool.submit(make, key) for key in keys}
        pool.shutdown(wait=False)

    def take(self, key: Key) -> Made | None:
        """What was begun under this key, once it is made; None for any other. Raises what making it
        raised."""
        begun = self._begun.pop(key, None)
        return None if begun is None else begun.result()

    def discard(self) -> None:
        """Throw away what was not taken."""
        self.over.set()
        for one in self._begun.values():
            one.cancel()
        self._begun = {}

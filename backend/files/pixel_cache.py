"""Which pictures of a run have their pixels in memory: the most recently used, up to a number of bytes.

Decision: one budget for the whole process. A run holds every image it drew, for its journal, its results and
its listeners; what is in a file need not be in memory too. Whoever draws or judges holds the pixels in use,
so evicting them here takes them away from nobody.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Protocol

BUDGET = 64 * 1024 * 1024
"""Bytes of pixels: twenty images of a megapixel, so that a step with its attempts never reads one twice."""


class HoldsPixels(Protocol):
    """What the cache must be able to do with a picture."""

    @property
    def size(self) -> tuple[int, int]: ...

    def forget_pixels(self) -> None: ...


class PixelCache:
    """Has the least recently used pictures drop their pixels."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._entries: OrderedDict[int, tuple[weakref.ref[HoldsPixels], int]] = OrderedDict()
        self._bytes = 0
        # Entered again when a picture dies while another one is being added.
        self._lock = threading.RLock()

    @property
    def bytes(self) -> int:
        """Bytes of the pixels that are in memory now."""
        return self._bytes

    def used(self, picture: HoldsPixels) -> None:
        """The pixels of this picture are in memory and were just used."""
        key = id(picture)
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return
            size = picture.size[0] * picture.size[1] * 3
            self._entries[key] = weakref.ref(picture, lambda _: self._drop(key)), size
            self._bytes += size
            while self._bytes > self.budget and len(self._entries) > 1:
                oldest, (reference, _) = next(iter(self._entries.items()))
                self._drop(oldest)
                if (forgotten := reference()) is not None:
                    forgotten.forget_pixels()

    def _drop(self, key: int) -> None:
        with self._lock:
            _, size = self._entries.pop(key, (None, 0))
            self._bytes -= size

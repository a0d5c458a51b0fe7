"""Limits the RAM for the pixels of a run's images: only the most recently used images keep them.

There is one budget for the whole process. A run references every image it generated, in its journal, its
results and its listeners, but pixels stored in a file need not be in RAM too. Code that generates or judges
holds its own reference to the pixels, so evicting them here does not affect it.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Protocol

BUDGET = 64 * 1024 * 1024
"""Budget in bytes: twenty images of a megapixel, enough for all attempts of a step."""


class HoldsPixels(Protocol):
    """The interface of images in the cache."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        ...

    def forget_pixels(self) -> None:
        """Drop the pixels, if they can be read again."""
        ...


class PixelCache:
    """Drops the pixels of the least recently used images."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._entries: OrderedDict[int, tuple[weakref.ref[HoldsPixels], int]] = OrderedDict()
        self._bytes = 0
        # Reentrant, because an image can be garbage-collected while another one is added.
        self._lock = threading.RLock()

    @property
    def bytes(self) -> int:
        """Bytes of the pixels in RAM."""
        return self._bytes

    def used(self, picture: HoldsPixels) -> None:
        """Record that the pixels of an image are in RAM and were just used."""
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

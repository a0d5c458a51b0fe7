"""Which pictures of a run keep their pixels in memory: the latest used, up to a number of bytes.

Decision: one budget for the whole process. A run holds every image it drew, for its journal, its results and
whoever listens; what is in a file need not be in memory too. Who is drawing or judging holds the pixels it
works on itself, so forgetting them here never takes them away from anybody.
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
    """Makes the pictures that were not used for the longest time forget their pixels."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._held: OrderedDict[int, tuple[weakref.ref[HoldsPixels], int]] = OrderedDict()
        self._bytes = 0
        # Entered again when a picture dies while another one is being noted.
        self._lock = threading.RLock()

    @property
    def bytes(self) -> int:
        """Bytes of the pixels that are held now."""
        return self._bytes

    def used(self, picture: HoldsPixels) -> None:
        """The pixels of this picture are in memory and were just used."""
        key = id(picture)
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return
            size = picture.size[0] * picture.size[1] * 3
            self._held[key] = weakref.ref(picture, lambda _: self._drop(key)), size
            self._bytes += size
            while self._bytes > self.budget and len(self._held) > 1:
                oldest, (reference, _) = next(iter(self._held.items()))
                self._drop(oldest)
                if (forgotten := reference()) is not None:
                    forgotten.forget_pixels()

    def _drop(self, key: int) -> None:
        with self._lock:
            _, size = self._held.pop(key, (None, 0))
            self._bytes -= size

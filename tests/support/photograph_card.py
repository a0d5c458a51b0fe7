"""Simulates an image model on a GPU: time without the processor, and an image as large as a photograph.

Worker processes of a service under test open it, so it is a separate module.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import numpy
from PIL import Image

from interleave_thinker.backend.core.errors import Cancelled, GeneratorError, SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.service.check import photograph_like
from interleave_thinker.service.pool import Drawer
from interleave_thinker.service.settings import ModelSettings

KIND = "card"
"""`card:SIDE:SECONDS`: image side in pixels, and seconds per image. `card:no` does not load."""


class Card:
    """Generates a photograph-like image shifted by a digest of the request.

    A prompt that starts with `memory` runs out of memory.
    """

    def __init__(self, side: int, seconds: float) -> None:
        self._pixels = numpy.asarray(photograph_like((side, side)).image)
        self._seconds, self.identity = seconds, f"card {side}"
        self.interrupted: Callable[[], bool] = lambda: False

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        until = time.monotonic() + self._seconds
        while (left := until - time.monotonic()) > 0:
            if self.interrupted():
                raise Cancelled("stopped")
            time.sleep(min(0.02, left))
        if prompt.startswith("memory"):
            raise GeneratorError("CUDA out of memory") from MemoryError("CUDA out of memory")
        asked = f"{prompt} {seed} {source.digest if source else ''}".encode()
        moved = int.from_bytes(hashlib.blake2b(asked, digest_size=4).digest(), "big")
        side = len(self._pixels)
        rolled = numpy.roll(self._pixels, (moved % side, moved // side % side), (0, 1))
        return Picture(Image.fromarray(rolled))


def open_drawer(model: ModelSettings, device: str, name: str, gpu: int) -> Drawer:
    """Replacement for `Drawer.open`, which does not know this generator."""
    kind, *rest = model.generator.split(":")
    if kind != KIND:
        return Drawer.open(model, device, name, gpu)
    if rest == ["no"]:
        raise SettingsError("The folder does not exist.")
    return Drawer(Card(int(rest[0]), float(rest[1])), model, name, gpu)

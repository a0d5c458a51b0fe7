"""Simulates a GPU with the tiny world: one image at a time, followed by a wait until a fixed time is over.

The wait uses no processor, so the gain of several GPUs shows on a machine without one.
"""

from __future__ import annotations

import threading
import time

from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.service.drawer import Drawer
from interleave_thinker.service.settings import ModelSettings

SECONDS = 0.25


class SlowCard:
    """Generates tiny-world images, one at a time, in SECONDS each or in the time that the processor needs."""

    def __init__(self) -> None:
        self._world = open_generator("tinyworld")
        self._card = threading.Lock()

    @property
    def identity(self) -> str:
        return self._world.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        with self._card:
            until = time.monotonic() + SECONDS
            page = self._world.draw(prompt, source, seed)
            time.sleep(max(0.0, until - time.monotonic()))
            return page


def open_card(model: ModelSettings, device: str, name: str, gpu: int) -> Drawer:
    """Open the simulated GPU in a worker process of a service."""
    return Drawer(SlowCard(), model, name, gpu)

"""A stand-in for a card: the tiny world, one image at a time, each followed by a wait without processor until
a fixed time is over. What is gained by several cards shows on a machine that has none."""

from __future__ import annotations

import threading
import time

from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.service.drawer import Drawer
from interleave_thinker.service.settings import ModelSettings

SECONDS = 0.25


class SlowCard:
    """Draws the tiny world's pages, one at a time, in SECONDS each or in what the processor needs."""

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
    """The card in a worker process of a service."""
    return Drawer(SlowCard(), model, name, gpu)

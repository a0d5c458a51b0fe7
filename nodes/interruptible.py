"""A generator that notices the host's cancel button before every draw, whatever it is made of."""

from __future__ import annotations

from ..backend.generators.protocol import Generator
from ..backend.pictures import Picture
from . import host


class InterruptibleGenerator:
    """Implements Generator around another one."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    @property
    def identity(self) -> str:
        return self._generator.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Draw, or raise Cancelled if the user pressed cancel."""
        host.stop_if_interrupted()
        return self._generator.draw(prompt, source, seed)

"""A generator that fails on demand, opened in the worker processes of a service under test."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from interleave_thinker import Cancelled, GeneratorError, Picture, SettingsError
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.service.pool import Drawer
from interleave_thinker.service.settings import ModelSettings

FAULTY = "faulty"
"""Name of the generator; `faulty:no` cannot be loaded."""


class FaultyGenerator:
    """Paints like `fake:32`, and obeys the beginning of its prompt.

    Prompts are `die`, `die once`, `crash`, `memory`, `refuse` and `slow SECONDS`. `folder` gets a line for
    every generated image and every started call.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.interrupted: Callable[[], bool] | None = None
        self._fake = FakeGenerator(32)

    @property
    def identity(self) -> str:
        return f"faulty/1 {(self.folder / 'version').exists()}"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        return self.draw_many([prompt], [source], [seed])[0]

    def draw_many(
        self, prompts: Sequence[str], sources: Sequence[Picture | None], seeds: Sequence[int]
    ) -> list[Picture]:
        self._note("calls", str(len(prompts)))
        for prompt in prompts:
            self._obey(prompt)
        drawn = zip(prompts, sources, seeds, strict=True)
        pictures = [self._fake.draw(*one) for one in drawn]
        for prompt in prompts:
            self._note("drawn", prompt)
        return pictures

    def _obey(self, prompt: str) -> None:
        kind, _, rest = prompt.partition(" ")
        if kind == "die":
            self._note("deaths", prompt)
            if not rest.startswith("once") or self.folder.joinpath("deaths").read_text().count(prompt) == 1:
                os._exit(9)
        if kind == "crash":
            raise RuntimeError("an illegal memory access was encountered")
        if kind == "memory":
            raise MemoryError("CUDA out of memory")
        if kind == "refuse":
            raise GeneratorError("The model does not draw that.", "Ask for something else.")
        if kind == "slow":
            until = time.monotonic() + float(rest.partition(" ")[0])
            while time.monotonic() < until:
                if self.interrupted is not None and self.interrupted():
                    self._note("stopped", prompt)
                    raise Cancelled("The generation was stopped.")
                time.sleep(0.01)

    def _note(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")


def open_drawer(model: ModelSettings, device: str, name: str, gpu: int) -> Drawer:
    """Replacement for `Drawer.open`, which does not know this generator.

    `device` is the folder for its notes.
    """
    if not model.generator.startswith(FAULTY):
        return Drawer.open(model, device, name, gpu)
    if model.generator == f"{FAULTY}:no":
        raise SettingsError("The folder does not exist.")
    time.sleep(float(str(model.options.get("load", 0))))
    return Drawer(FaultyGenerator(Path(str(model.options["notes"]))), model, name, gpu)


def noted(folder: Path, name: str) -> list[str]:
    """Return the lines of one kind of note."""
    file = folder / name
    return file.read_text().splitlines() if file.exists() else []

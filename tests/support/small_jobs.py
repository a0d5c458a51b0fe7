"""Jobs for tests of executors; they are sent to other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interleave_thinker.backend.errors import ChatError
from interleave_thinker.training.data.trajectories.executors import CancelToken


@dataclass(frozen=True)
class Squares:
    """Squares a number; each call costs `costs` and takes `seconds`."""

    costs: float = 0.0
    seconds: float = 0.0

    def open(self, stop: CancelToken) -> Callable[[int], int]:
        return lambda item: self._square(item, stop)

    def _square(self, item: int, stop: CancelToken) -> int:
        time.sleep(self.seconds)
        stop.add(self.costs)
        return item * item


@dataclass(frozen=True)
class Folders:
    """Returns the current folder of the worker."""

    def open(self, stop: CancelToken) -> Callable[[int], str]:
        return lambda item: os.getcwd()


@dataclass(frozen=True)
class Unopened:
    """A job whose models cannot be opened."""

    def open(self, stop: CancelToken) -> Callable[[int], int]:
        raise ChatError("The model does not exist.")


@dataclass(frozen=True)
class Deadly:
    """Kills its worker at item 3, the first `times` times."""

    notes: Path
    times: int

    def open(self, stop: CancelToken) -> Callable[[int], int]:
        return self._square

    def _square(self, item: int) -> int:
        if item == 3 and len(list(self.notes.iterdir())) < self.times:
            (self.notes / str(time.monotonic_ns())).touch()
            os._exit(9)
        return item * item

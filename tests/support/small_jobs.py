"""Work for tests of executors; it is sent to other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interleave_thinker.backend.core.errors import ChatError
from interleave_thinker.research.data.trajectories.executors import Stop


@dataclass(frozen=True)
class Squares:
    """Squares a number."""

    def __call__(self, stop: Stop) -> Callable[[int], int]:
        return lambda item: item * item


@dataclass(frozen=True)
class Folders:
    """Returns the current folder of the worker."""

    def __call__(self, stop: Stop) -> Callable[[int], str]:
        return lambda item: os.getcwd()


@dataclass(frozen=True)
class Unopened:
    """Work whose models cannot be opened."""

    def __call__(self, stop: Stop) -> Callable[[int], int]:
        raise ChatError("The model does not exist.")


@dataclass(frozen=True)
class Deadly:
    """Kills its worker at item 3, the first `times` times."""

    notes: Path
    times: int

    def __call__(self, stop: Stop) -> Callable[[int], int]:
        return self._square

    def _square(self, item: int) -> int:
        if item == 3 and len(list(self.notes.iterdir())) < self.times:
            (self.notes / str(time.monotonic_ns())).touch()
            os._exit(9)
        return item * item

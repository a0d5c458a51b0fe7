"""The child process of a device: loads one model, draws what it is sent, and ends with its parent.

Decision: a thread reads the pipe, so that a stop arrives in the middle of a draw; everything else is the main
thread's. Signals are the parent's to act on: a service manager sends them to the whole group, and what is
being drawn is to be finished.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from ...backend.errors import InterleaveError, SettingsError
from ..drawer import Drawer, DrawOutcome
from ..pool import ImageRequest, ModelInfo
from ..settings import ModelSettings


@dataclass(frozen=True)
class ModelLoaded:
    """The model is ready."""

    info: ModelInfo


@dataclass(frozen=True)
class ModelNotLoaded:
    """It cannot be loaded; `lasting`: by its settings, so that another try is of no use before they
    change."""

    reason: str
    lasting: bool


@dataclass(frozen=True)
class DrawJob:
    """Requests to draw in one call."""

    number: int
    requests: tuple[ImageRequest, ...]


@dataclass(frozen=True)
class StopJob:
    """Nobody waits for this job any more."""

    number: int


@dataclass(frozen=True)
class DrawJobResult:
    """What came of a job, in the order of its requests."""

    number: int
    outcomes: tuple[DrawOutcome, ...]


OpenDrawer: TypeAlias = Callable[[ModelSettings, str, str, int], Drawer]
"""Loads a model onto a device, as a worker of a name and a number; it travels to the child."""


def main(pipe: Connection, open_drawer: OpenDrawer, *given: Any) -> None:
    """Run until the parent closes the pipe; `given` are the arguments of `open_drawer`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        drawer = open_drawer(*given)
    except InterleaveError as error:
        pipe.send(ModelNotLoaded(str(error), isinstance(error, SettingsError)))
        return
    pipe.send(ModelLoaded(drawer.info))
    jobs: queue.SimpleQueue[DrawJob] = queue.SimpleQueue()
    stopped = _Stopped()
    threading.Thread(target=_read, args=(pipe, jobs, stopped), daemon=True).start()
    while True:
        job = jobs.get()
        outcomes = drawer.draw(job.requests, lambda: stopped.number >= job.number)  # noqa: B023
        pipe.send(DrawJobResult(job.number, tuple(outcomes)))


class _Stopped:
    number = -1


def _read(pipe: Connection, jobs: queue.SimpleQueue[DrawJob], stopped: _Stopped) -> None:
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            # The parent is gone, or done with this worker; a draw under way has nobody to go to.
            os._exit(0)
        if isinstance(message, StopJob):
            stopped.number = max(stopped.number, message.number)
        else:
            jobs.put(message)

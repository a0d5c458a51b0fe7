"""The child process of a device: loads one model, processes requests, and ends with its parent.

A thread reads the pipe, so that a stop arrives during a generation. Everything else runs in the main thread.
Signals are handled by the parent: a service manager sends them to the whole process group, and current
requests must finish.
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
    """The model cannot be loaded.

    `lasting`: because of its settings, so that a retry is useless until they change.
    """

    reason: str
    lasting: bool


@dataclass(frozen=True)
class DrawJob:
    """Requests to process in one call."""

    number: int
    requests: tuple[ImageRequest, ...]


@dataclass(frozen=True)
class StopJob:
    """A job that no client waits for any more."""

    number: int


@dataclass(frozen=True)
class DrawJobResult:
    """The results of a job, in the order of its requests."""

    number: int
    outcomes: tuple[DrawOutcome, ...]


OpenDrawer: TypeAlias = Callable[[ModelSettings, str, str, int], Drawer]
"""Loads a model onto a device for a worker with a name and a number. It is pickled and sent to the child."""


def main(pipe: Connection, open_drawer: OpenDrawer, *given: Any) -> None:
    """Run until the parent closes the pipe. `given` are the arguments of `open_drawer`."""
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
            # The parent is gone, or does not need this worker any more, so a current result has no receiver.
            os._exit(0)
        if isinstance(message, StopJob):
            stopped.number = max(stopped.number, message.number)
        else:
            jobs.put(message)

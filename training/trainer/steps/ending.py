"""Ends a training early at the user's request, and keeps what it has learned.

The request is a file in the folder of the training, so that another process can make it, and a training that
is killed after it still ends. A training that runs holds a lock of the system, so that a request to one that
does not run is known to be one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....backend.errors import TrainingError
from ....backend.files.atomic import remove, write_text
from ....backend.files.bounded_reader import read_json
from ....backend.files.lock import SystemLock
from .ranks import agreed

FINISH_FILE = "finish.json"
LOCK_FILE = "in-use.lock"
COMMAND_FILE = "command.json"
MAX_BYTES = 1024 * 1024
STAGES = ("grpo", "sft")
"""Folders of the stages of `own-critic`, the last one first."""

started_with: ContextVar[tuple[str, ...]] = ContextVar("started_with", default=())
"""Arguments of the command that starts a training, such as ("critic-sft", "--data", ...)."""


class StartedWith(BaseModel):
    """Command that started a training.

    Attributes:
        command: Its arguments.
        folder: Folder to which their paths are relative.
        inode: Inode of the training's folder. A copied, unpacked or downloaded folder has another one.
    """

    model_config = ConfigDict(extra="ignore")

    command: list[str] = Field(min_length=1)
    folder: str
    inode: int | None = None

    def is_of(self, out: Path) -> bool:
        """Return whether the command was recorded in this folder, not copied into it."""
        return self.inode == out.stat().st_ino


class Ending:
    """Request to end the training in a folder after a step."""

    def __init__(self, out: Path, devices: int = 1, whole: int = 1) -> None:
        """Watch for a request.

        Args:
            out: Folder of the training.
            devices: Number of processes that train together. They end after the same step.
            whole: Steps that belong together; the training ends after a multiple of them.
        """
        self.path = out / FINISH_FILE
        self.whole = whole
        self.agree = agreed(devices)

    @property
    def asked(self) -> bool:
        """Whether the user requested the end."""
        return self.path.is_file()

    def ask(self) -> None:
        """Request the end.

        Raises:
            TrainingError: The request cannot be written.
        """
        write_text(self.path, json.dumps({"finish": True}) + "\n", TrainingError, "The request to finish")

    def withdraw(self) -> None:
        """Remove the request."""
        remove(self.path, TrainingError)

    def due(self, step: int) -> bool:
        """Return whether the training ends after this step. All processes call it after every step."""
        return step % self.whole == 0 and self.decided()

    def decided(self) -> bool:
        """Return whether the first process has seen a request. All processes call it.

        A request may arrive while they look for it one after another. If some ended and others trained, these
        would wait forever.
        """
        asked = self.asked and os.environ.get("RANK", "0") == "0"
        return self.agree("asked" if asked else None) is not None

    def note(self, step: int, steps: int) -> list[str]:
        """Return a note for the model card if the training of `steps` steps ended early."""
        return [f"ended early at the user's request, after step {step} of {steps}"] * (
            self.asked and step < steps
        )


@contextmanager
def in_use(out: Path) -> Iterator[None]:
    """Hold the lock of a training's folder, and record its command; only the first process does so.

    Raises:
        TrainingError: Another process trains in this folder.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    busy = TrainingError(
        f"Another process is training in {str(out)!r}.",
        "Wait for it, end it with train finish, or give another --out.",
    )
    with SystemLock(out / LOCK_FILE).held(busy):
        command = started_with.get()
        if command:
            started = StartedWith(command=list(command), folder=os.getcwd(), inode=out.stat().st_ino)
            write_text(out / COMMAND_FILE, started.model_dump_json(indent=1) + "\n", TrainingError)
        yield


def is_in_use(out: Path) -> bool:
    """Return whether a process trains in this folder."""
    lock = SystemLock(out / LOCK_FILE)
    if not lock.take():
        return True
    lock.release()
    return False


def started(out: Path) -> StartedWith | None:
    """Return the command that started the training in a folder, or None if it is not known."""
    if not (out / COMMAND_FILE).is_file():
        return None
    try:
        return StartedWith.model_validate(read_json(out / COMMAND_FILE, TrainingError, limit=MAX_BYTES))
    except (TrainingError, ValidationError):
        return None

"""Ends a training early, at the user's request or because of a problem, and keeps what it has learned.

The request is a file in the folder of the training, so that another process can make it, and a training that
is killed after it still ends. A training that runs holds a lock of the system, so that a request to one that
does not run is known to be one.

Ctrl-C once stops a training, so that it can be resumed; twice ends it and keeps its result. The signal's
handler does nothing in forked processes (workers that load images): the terminal sends Ctrl-C to them too,
and without workers the training could not reach the end of its step.

Everything that stops a training or waits for a service is decided by one rank and sent to all, including
errors: a rank that continues or stops alone would leave the others waiting. Ranks wait as long as calls of
judge and generator may take by their own deadlines, instead of the half hour after which the process group
would abort.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...backend.core.errors import InterleaveError, TrainingError
from ...backend.core.files.atomic import remove, write_text
from ...backend.core.files.bounded_reader import read_json
from ...backend.core.files.lock import SystemLock

Found = TypeVar("Found")

MIN_PATIENCE = 1800
"""Default timeout of the process group, in seconds."""
MAX_PATIENCE = 2 * 86400


def patience(longest: float) -> int:
    """Return the process group's timeout in seconds, if calls of one rank may take `longest` seconds."""
    return round(min(MAX_PATIENCE, MIN_PATIENCE + longest))


def of_first_rank(check: Callable[[], Found], devices: int) -> Found:
    """Run a check on the first rank only, and return its result on every rank.

    All ranks thus decide the same, and a judge is called once. An error is also raised on every rank, since
    ranks that wait for a missing result would hang.

    Raises:
        TrainingError: The check failed.
    """
    if devices == 1:
        return check()
    from accelerate.utils import broadcast_object_list

    outcome: list[Any] = [None, None]
    if os.environ.get("RANK", "0") == "0":
        try:
            outcome[0] = check()
        except InterleaveError as error:
            outcome[1] = error.message, error.hint
    found, failed = broadcast_object_list(outcome)
    if failed is not None:
        raise TrainingError(*failed)
    return found


def agreed(devices: int) -> Callable[[str | None], str | None]:
    """Return a function that returns the first problem of any rank on every rank."""
    if devices == 1:
        return lambda problem: problem
    from accelerate.utils import gather_object

    return lambda problem: next((one for one in gather_object([problem]) if one is not None), None)


def gathered(trainer: Any) -> Any:
    """Return a context manager with the model ready for generation, however it is distributed."""
    from trl.models.utils import unwrap_model_for_generation

    if trainer.accelerator.num_processes == 1:
        return nullcontext(trainer.accelerator.unwrap_model(trainer.model))
    return unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator)


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


SECONDS = 5.0
"""Time for the second Ctrl-C."""
Log = Callable[[str], None]


class TwoInterrupts:
    """Handles SIGINT: the first waits for a second one, the second calls `end`, any other one stops."""

    def __init__(self, end: Callable[[], None], log: Log, seconds: float = SECONDS) -> None:
        self._end, self._log, self._seconds = end, log, seconds
        self._owner = os.getpid()
        self._count = 0
        self._timer: threading.Timer | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal.

        Raises:
            KeyboardInterrupt: No second one followed in time, or the user insists.
        """
        if os.getpid() != self._owner:
            return
        self._count += 1
        if self._count == 1:
            self._say(
                f"interrupted: press Ctrl-C again within {self._seconds:g} seconds to end the training after "
                "this step and keep its result; otherwise it stops, and the same command resumes it"
            )
            # The timer's thread cannot raise in this one, so it sends the signal again, as a third one.
            self._timer = threading.Timer(self._seconds, self._expired)
            self._timer.daemon = True
            self._timer.start()
        elif self._count == 2:
            self.forget()
            self._end()
            self._say("ending after this step; Ctrl-C once more stops at once")
        else:
            raise KeyboardInterrupt

    def forget(self) -> bool:
        """Do not wait for a second signal any longer, and return whether one was waited for."""
        if self._timer is not None:
            self._timer.cancel()
        return self._count == 1

    def _expired(self) -> None:
        self._count = max(self._count, 2)
        main = threading.main_thread().ident
        if main is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, signal.SIGINT)  # also ends a wait of the main thread
        else:
            _thread.interrupt_main()

    def _say(self, line: str) -> None:
        with suppress(RuntimeError):  # the signal may arrive while the same stream is written to
            self._log(line)


@contextmanager
def two_interrupts(end: Callable[[], None], log: Log, seconds: float = SECONDS) -> Iterator[None]:
    """Call `end` when the user presses Ctrl-C twice within the block.

    Other programs that handle the signal themselves, other threads, and processes of a distributed launcher
    (which stops all of them) keep their own handling.

    Raises:
        KeyboardInterrupt: The user pressed it once.
    """
    alone = os.environ.get("WORLD_SIZE", "1") == "1"
    is_main = threading.current_thread() is threading.main_thread()
    if not alone or not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    handler = TwoInterrupts(end, log, seconds)
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        waited = handler.forget()
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if waited:  # the last step ended before the user pressed Ctrl-C again, or did not
        raise KeyboardInterrupt

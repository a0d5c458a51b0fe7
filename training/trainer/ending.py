"""Ends a training early, at the user's request or because of a problem, and keeps what it has learned.

The request is a file in the folder of the training, so that another process can make it, and a training that
is stopped after it still ends when its command is run again. A training that runs holds a lock of the system,
so that a request to one that does not run is known to be one.

Everything that stops a training or waits for a service is decided by one rank and sent to all, including
errors: a rank that continues or stops alone would leave the others waiting. Ranks wait as long as calls of
judge and generator may take by their own deadlines, instead of the half hour after which the process group
would abort.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from ...backend.core.errors import InterleaveError, TrainingError
from ...backend.core.files.atomic import remove, write_text
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
STAGES = ("grpo", "sft")
"""Folders of the stages of `own-critic`, the last one first."""


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
    """Hold the lock of a training's folder; only the first process does so.

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
        yield


def is_in_use(out: Path) -> bool:
    """Return whether a process trains in this folder."""
    lock = SystemLock(out / LOCK_FILE)
    if not lock.take():
        return True
    lock.release()
    return False

"""What a paused run waits for, in `waiting.json`: the planner's plan, or the image of a step.

The file is valid as long as the user's choices are those of the time when the run paused. So any decision,
also one written into choices.json by hand, ends the wait without a second write.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ...core.pictures import DIGEST
from ...core.types import StopReason, Value
from .choices import choices_in
from .run_files import RunFiles

WAITING = "waiting.json"
HINT = "Delete it, and run the same command again."

WaitDigest = Annotated[str, Field(pattern=DIGEST.pattern)]


class Waiting(Value):
    """What a run waits for.

    Attributes:
        step: Number of the step. `None` if the run waits for the approval of its plan.
        digest: Digest of the step's image, or of the plan. `None` if the step has no image.
        attempt: Number of the attempt with that image, from 1. `None` without an image.
        reason: Why the step ended. `None` for a plan.
        since: Time at which the wait began, in seconds since 1970.
        choices: Digest of the user's choices at that time.
    """

    step: int | None = Field(default=None, ge=1)
    digest: WaitDigest | None = None
    attempt: int | None = Field(default=None, ge=1)
    reason: StopReason | None = None
    since: float = Field(default=0.0, ge=0.0)
    choices: WaitDigest | None = None


def waiting_in(files: RunFiles) -> Waiting | None:
    """Return what a run waits for, as `waiting_for`, for files that are already open."""
    found = files.read_model(Waiting, WAITING, hint=HINT)
    return found if found and found.choices == choices_in(files).digest else None


def keep_waiting(files: RunFiles, waiting: Waiting | None) -> Waiting | None:
    """Store what a run waits for, and return it with the time at which the wait began.

    A run that comes to the same wait again keeps that time. `None`: the run does not wait.

    Raises:
        JournalError: The file cannot be written, or waiting.json or choices.json is damaged.
    """
    if waiting is None:
        files.remove(WAITING)
        return None
    now = waiting.model_copy(update={"choices": choices_in(files).digest, "since": time.time()})
    before = waiting_in(files)
    if before is not None and before == now.model_copy(update={"since": before.since}):
        return before
    files.write_model(now, WAITING)
    return now


def waiting_for(folder: str | Path) -> Waiting | None:
    """Return what the run in a folder waits for; `None` if it does not wait, or the user has decided.

    Raises:
        JournalError: waiting.json or choices.json is damaged.
    """
    return waiting_in(RunFiles(folder))

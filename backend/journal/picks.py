"""Which attempt a person picked as a step's result, in the run's folder: `choices.json`.

Decision: an attempt is named by the digest of its image, which is also the name of its file below
`pictures/`. A choice then holds as long as that image is one of the step's attempts, whatever was queued,
added or renumbered since, and one that no longer fits is passed over instead of pointing at another image. A
pick reads the file and writes it anew under a lock, so that of many at a time none is lost. Write it by hand,
by `pick` or from the node's view:

    {"steps": {"2": "<digest>"}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..errors import JournalError
from ..files.lock import SystemLock
from ..pictures import DIGEST
from ..types import MAX_STEPS, Value
from .files import PICTURES, RunFiles

CHOICES = "choices.json"
LOCK = "choices.lock"
MAX_CHOICES = 10 * MAX_STEPS
WAIT_SECONDS = 30.0
HINT = "Correct it there, or delete the file to leave every choice to the critic."

PictureDigest = Annotated[str, Field(pattern=DIGEST.pattern)]


class Choices(Value):
    """The content of choices.json: step numbers with the digest of the image that was picked for them."""

    format: Literal["interleave-thinker choices"] = "interleave-thinker choices"
    version: Literal[1] = 1
    steps: dict[Annotated[int, Field(ge=1)], PictureDigest] = Field(
        default_factory=dict, max_length=MAX_CHOICES
    )


def read_choices(folder: str | Path) -> Choices:
    """What was picked in a run's folder, nothing if nobody did; raises JournalError if the file is
    damaged."""
    return choices_in(RunFiles(folder))


def choices_in(files: RunFiles) -> Choices:
    """As `read_choices`, of files that are open already."""
    return files.read_model(Choices, CHOICES, hint=HINT) or Choices()


def pick(folder: str | Path, step: int, picture: str | None) -> Choices:
    """Pick the image with this digest as a step's result, or (None) leave the step to the critic again.

    The next run of the folder takes it: later steps start from it, earlier ones are not drawn again. Raises
    JournalError if the folder has no such picture, its choices.json is damaged or full, or others are picking
    all the time.
    """
    files = RunFiles(folder)
    if picture is not None and not (
        DIGEST.match(picture) and files.path(PICTURES, f"{picture}.png").is_file()
    ):
        raise JournalError(
            f"Picture {picture[:60]!r} is not in {str(files.folder / PICTURES)!r}.",
            "Pick one of the step's images.",
        )
    lock = SystemLock(files.path(LOCK))
    if not lock.take(WAIT_SECONDS):
        raise JournalError(
            f"{str(files.path(CHOICES))!r} is being changed by others all the time.", "Pick again."
        )
    try:
        steps = {number: digest for number, digest in read_choices(folder).steps.items() if number != step}
        if picture is not None:
            steps[step] = picture
        if len(steps) > MAX_CHOICES:
            raise JournalError(
                f"{str(files.path(CHOICES))!r} holds {MAX_CHOICES} choices already.",
                "Take some of them back.",
            )
        choices = Choices(steps=steps)
        files.write_model(choices, CHOICES)
    finally:
        lock.release()
    return choices

"""Which attempt a person picked as a step's result, in the run's folder: `choices.json`.

Decision: an attempt is named by the digest of its image, which is also the name of its file below `pictures/`. A choice
then holds as long as that image is one of the step's attempts, whatever was queued, added or renumbered since, and one
that no longer fits is passed over instead of pointing at another image. Write it by hand, by `pick` or from the node's view:

    {"steps": {"2": "<digest>"}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from .errors import JournalError
from .journal_files import PICTURES, RunFiles
from .pictures import DIGEST
from .types import MAX_STEPS, Value

CHOICES = "choices.json"
HINT = "Correct it there, or delete the file to leave every choice to the critic."

PictureDigest = Annotated[str, Field(pattern=DIGEST.pattern)]


class Choices(Value):
    """The content of choices.json: step numbers with the digest of the image that was picked for them."""

    format: Literal["interleave-thinker choices"] = "interleave-thinker choices"
    version: Literal[1] = 1
    steps: dict[Annotated[int, Field(ge=1)], PictureDigest] = Field(
        default_factory=dict, max_length=10 * MAX_STEPS
    )


def read_choices(folder: str | Path) -> Choices:
    """What was picked in a run's folder, nothing if nobody did; raises JournalError if the file is damaged."""
    return RunFiles(folder).read_model(Choices, CHOICES, hint=HINT) or Choices()


def pick(folder: str | Path, step: int, picture: str | None) -> Choices:
    """Pick the image with this digest as a step's result, or (None) leave the step to the critic again.

    The next run of the folder takes it: later steps start from it, earlier ones are not drawn again. Raises JournalError
    if the folder has no such picture or its choices.json is damaged.
    """
    files = RunFiles(folder)
    steps = {number: digest for number, digest in read_choices(folder).steps.items() if number != step}
    if picture is not None:
        if not DIGEST.match(picture) or not files.path(PICTURES, f"{picture}.png").is_file():
            raise JournalError(
                f"Picture {picture[:60]!r} is not in {str(files.folder / PICTURES)!r}.",
                "Pick one of the step's images.",
            )
        steps[step] = picture
    choices = Choices(steps=steps)
    files.write_model(choices, CHOICES)
    return choices

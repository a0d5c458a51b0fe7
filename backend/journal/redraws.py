"""A person asks for one more attempt at a step: noted in `choices.json`, drawn by the loop.

Decision: a request is data in the run's folder and nothing is drawn here, so the node's view, the command
line and a program ask in the same way, while a run is going on (its loop looks before every draw) or when it
is over (the next run of the folder draws it, and what depends on it). It names its prompt and not the image
that it shall replace: earlier steps may be redrawn later without its being lost. Asking takes back the
step's pick, for the newest decision of a person counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from ..errors import JournalError
from ..pictures import DIGEST
from ..types import MAX_BATCH, MAX_TEXT, Several
from .files import RunFiles
from .journal import ATTEMPTS, RUN
from .picks import (
    CHOICES,
    MAX_CHOICES,
    MAX_REDRAWS,
    Choices,
    RedrawRequest,
    changing,
    fitting,
    plan_in,
    planned_prompt,
    read_choices,
)

Name = Annotated[str, Field(max_length=64)]


def ask_redraw(
    folder: str | Path, step: int, prompt: str | None = None, picture: str | None = None
) -> Choices:
    """Ask for one more attempt at a step of a run: with `prompt`, or with the prompt that the image with the
    digest `picture` was drawn with, or with the step's own; always with another seed.

    Raises JournalError if the folder holds no run, its plan no such step to draw, the prompt is too long, or
    choices.json is damaged, full, or being changed by others all the time.
    """
    files = RunFiles(folder)
    if not files.path(RUN).is_file():
        raise JournalError(f"{str(folder)!r} holds no run.", "Give the folder of one.")
    planned = planned_prompt(files, step)
    drawn_with = (prompt or "").strip() or (_prompt_of(files, picture) if picture else planned)
    if len(drawn_with) > MAX_TEXT:
        raise JournalError(f"The prompt has {len(drawn_with)} characters; at most {MAX_TEXT} are read.")
    with changing(files):
        before = read_choices(folder)
        redraws = dict(before.redraws)
        redraws[step] = (*redraws.get(step, ()), RedrawRequest(planned=planned, prompt=drawn_with))
        if len(redraws[step]) > MAX_REDRAWS or len(redraws) > MAX_CHOICES:
            raise JournalError(
                f"{MAX_REDRAWS} redraws were asked for at step {step} already.",
                f"Remove some of them in {str(files.path(CHOICES))!r}.",
            )
        steps = {number: digest for number, digest in before.steps.items() if number != step}
        choices = before.model_copy(update={"steps": steps, "redraws": redraws})
        files.write_model(choices, CHOICES)
    return choices


def newest_redraws(folder: str | Path) -> dict[int, int]:
    """Number of the newest redraw that was asked for at each step of a run, of those that fit its plan.

    Raises JournalError if a file of it is damaged.
    """
    choices = read_choices(folder)
    plan = plan_in(RunFiles(folder)) if choices.redraws else None
    asked = {step.number: fitting(choices, step) for step in (plan.steps if plan else ())}
    return {number: max(redraws) for number, redraws in asked.items() if redraws}


class _Key(BaseModel):
    prompt: Annotated[str, Field(max_length=MAX_TEXT)]


class _Drawn(BaseModel):
    """What is read of the record of a draw; its pictures stay closed."""

    key: _Key
    image: Name | None = None
    more: Several[Name] = Field(default=(), max_length=MAX_BATCH)


def _prompt_of(files: RunFiles, picture: str) -> str:
    """What the image with this digest was drawn with."""
    folder = files.path(ATTEMPTS)
    if DIGEST.match(picture) and folder.is_dir():
        for path in sorted(folder.glob("*.json")):
            drawn = files.read_model(_Drawn, ATTEMPTS, path.name, hint="Delete it; it is then drawn again.")
            if drawn is not None and picture in (drawn.image, *drawn.more):
                return drawn.key.prompt
    raise JournalError(
        f"Picture {picture[:60]!r} was not drawn in {str(files.folder)!r}.", "Name one of the step's images."
    )

"""What a person decided about a run's steps, in its folder: `choices.json`. Which attempt is a step's result,
and which further attempts were asked for (redraws.py).

Decision: an attempt is named by the digest of its image, which is also the name of its file below
`pictures/`. A choice then holds as long as that image is one of the step's attempts, whatever was queued,
added or renumbered since, and one that no longer fits is passed over instead of pointing at another image. A
pick reads the file and writes it anew under a lock, so that of many at a time none is lost. Write it by hand,
by `pick` or from the node's view:

    {"steps": {"2": "<digest>"}}

Redraws stand in the same file, so that asking for one and taking back the step's pick is one write. Without
any the file is written as it always was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ..errors import JournalError
from ..files.lock import SystemLock
from ..pictures import DIGEST
from ..types import MAX_STEPS, Plan, Several, Step, Text, Value, in_style
from .files import PICTURES, PLAN, RunFiles

CHOICES = "choices.json"
LOCK = "choices.lock"
MAX_CHOICES = 10 * MAX_STEPS
MAX_REDRAWS = 100
"""Of one step."""
WAIT_SECONDS = 30.0
HINT = "Correct it there, or delete the file to leave every choice to the critic."

PictureDigest = Annotated[str, Field(pattern=DIGEST.pattern)]


StepNumber = Annotated[int, Field(ge=1)]


class RedrawRequest(Value):
    """One more attempt that a person asked for: `prompt` is what to draw with, `planned` the step's prompt
    when it was asked. It fits as long as the plan still says that."""

    by: Literal["user"] = "user"
    planned: Text
    prompt: Annotated[Text, Field(min_length=1)]


class Choices(Value):
    """The content of choices.json: step numbers with the digest of the image that was picked for them, and
    with the redraws that were asked for, in their order."""

    format: Literal["interleave-thinker choices"] = "interleave-thinker choices"
    version: Literal[1] = 1
    steps: dict[StepNumber, PictureDigest] = Field(default_factory=dict, max_length=MAX_CHOICES)
    redraws: dict[StepNumber, Annotated[Several[RedrawRequest], Field(max_length=MAX_REDRAWS)]] = Field(
        default_factory=dict, max_length=MAX_CHOICES
    )

    @model_serializer(mode="wrap")
    def _without_redraws(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Picks alone are written as they always were, so that earlier versions read them."""
        written = fields(self)
        if not self.redraws:
            written.pop("redraws", None)
        return written


def read_choices(folder: str | Path) -> Choices:
    """What was picked in a run's folder, nothing if nobody did; raises JournalError if the file is
    damaged."""
    return choices_in(RunFiles(folder))


def choices_in(files: RunFiles) -> Choices:
    """As `read_choices`, of files that are open already."""
    return files.read_model(Choices, CHOICES, hint=HINT) or Choices()


def fitting(choices: Choices, step: Step, style: str = "") -> dict[int, str]:
    """The redraws that were asked for at a step as it is planned now, with the plan's style before its prompt
    or without: their numbers, from 1 and rising, with their prompts."""
    requests = choices.redraws.get(step.number, ())
    return {
        number: request.prompt
        for number, request in enumerate(requests, start=1)
        if step.prompt in (request.planned, in_style(request.planned, style))
    }


def plan_in(files: RunFiles) -> Plan | None:
    """The plan of a run, None before there is one; raises JournalError if it is damaged."""
    hint = "Correct it there, or delete the file to have the plan made anew."
    return files.read_model(Plan, PLAN, hint=hint)


def planned_prompt(files: RunFiles, number: int) -> str:
    """The prompt of a step in a run's plan. Raises JournalError if there is no such step or nothing of it is
    drawn."""
    plan = plan_in(files)
    steps = {step.number: step.prompt for step in plan.steps if step.prompt} if plan else {}
    if number not in steps:
        known = ", ".join(str(one) for one in steps) or "none"
        raise JournalError(
            f"The run in {str(files.folder)!r} has no step {number} that is drawn.", f"Drawn steps: {known}."
        )
    return steps[number] or ""


def pick(folder: str | Path, step: int, picture: str | None) -> Choices:
    """Pick the image with this digest as a step's result, or (None) leave the step to the critic again.

    The next run of the folder takes it: later steps start from it, earlier ones are not drawn again. Raises
    JournalError if the folder has no such picture, its plan no such step that is drawn, its choices.json is
    damaged or full, or others are picking all the time.
    """
    files = RunFiles(folder)
    if picture is not None and not (
        DIGEST.match(picture) and files.path(PICTURES, f"{picture}.png").is_file()
    ):
        raise JournalError(
            f"Picture {picture[:60]!r} is not in {str(files.folder / PICTURES)!r}.",
            "Pick one of the step's images.",
        )
    with changing(files):
        before = read_choices(folder)
        if picture is not None or step not in before.steps:  # one that the plan has no more can be taken back
            planned_prompt(files, step)
        steps = {number: digest for number, digest in before.steps.items() if number != step}
        if picture is not None:
            steps[step] = picture
        if len(steps) > MAX_CHOICES:
            raise JournalError(
                f"{str(files.path(CHOICES))!r} holds {MAX_CHOICES} choices already.",
                "Take some of them back.",
            )
        choices = before.model_copy(update={"steps": steps})
        files.write_model(choices, CHOICES)
    return choices


@contextmanager
def changing(files: RunFiles) -> Iterator[None]:
    """Have a run's choices.json to oneself; raises JournalError if others are changing it all the time."""
    busy = JournalError(
        f"{str(files.path(CHOICES))!r} is being changed by others all the time.", "Try again."
    )
    with SystemLock(files.path(LOCK)).held(busy, WAIT_SECONDS):
        yield

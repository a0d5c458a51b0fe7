"""An execution record in memory, independent of its form in the file.

Images are opened on demand and may be missing. What a form does not contain is empty or `None`, so users of a
record need not know its form.

`refine_prompt` in a file is the critic's refined prompt, or the prompt of the attempt. Published files
contain refined prompts ("" if the image was accepted). So do our files, which say so with
`"refine_prompt_is": "proposal"`. Older files of ours contain the prompt that was used, without saying so.
They are recognized by elimination. If the field is the prompt used, the first attempt of every step has the
step's own prompt, and no attempt has an empty one. If it is a refined prompt, an accepted attempt has none,
or the prompt that was used. If both are possible, it is the prompt used; if neither is, reading fails with an
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ...core.errors import JournalError, PictureError
from ...core.pictures import Picture
from ...core.types import Text
from ...core.types.cast import Cast, Present
from ...core.types.values import ValidTexts

Form = Literal["attempts", "last", "texts"]


class RecordImage(BaseModel):
    """An image of a record: the path as written, and the file if it exists."""

    model_config = ConfigDict(frozen=True)

    written: str
    file: Path | None = None

    @property
    def missing(self) -> bool:
        """Whether the file does not exist."""
        return self.file is None

    def open(self) -> Picture:
        """Read the image.

        Raises:
            JournalError: The image is missing, too large or damaged.
        """
        if self.file is None:
            raise JournalError(
                f"The record's image {self.written!r} is missing.", "Put it next to the record."
            )
        try:
            return Picture.open(self.file)
        except PictureError as error:
            raise JournalError(
                f"Cannot read the record's image {self.written!r} ({error}).", "Replace the file."
            ) from error


def stated(value: Any) -> Any:
    """Return a text of a record; `None` if it is empty or the word "None"."""
    return None if value in ("", "None") else value


def none_to_empty(value: Any) -> Any:
    """Return an empty text instead of `None`."""
    return "" if value is None else value


def none_to_nothing(value: Any) -> Any:
    """Return an empty list instead of `None`."""
    return () if value is None else value


Words = Annotated[Text, BeforeValidator(none_to_empty)]
OptionalText = Annotated[Text | None, BeforeValidator(stated)]
WrittenPath = Annotated[Annotated[str, Field(max_length=4096)] | None, BeforeValidator(stated)]


class RecordEntry(BaseModel):
    """One attempt (forms "attempts" and "last") or one finished step (form "texts"). Steps count from 1.

    `prompt` is the step's original prompt, `drawn_with` the prompt of the attempt (`None`: unknown).
    `proposed` is the critic's refined prompt (empty if there was none, as after acceptance; `None`: unknown).
    """

    model_config = ConfigDict(frozen=True)

    step: int
    prompt: str | None = None
    drawn_with: str | None = None
    proposed: str | None = None
    source: RecordImage | None = None
    target: RecordImage | None = None
    beside: tuple[RecordImage, ...] = ()
    success: bool | None = None
    reasoning: str = ""
    text: str = ""


class RecordStep(ValidTexts):
    """A step of the record's plan. An empty prompt stays one, since only null makes a text-only step."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    step_number: int = Field(ge=0, le=10**9)
    step_name: Words = ""
    instruction: OptionalText = None
    prompt: Annotated[Text | None, BeforeValidator(lambda value: None if value == "None" else value)] = None
    auxiliary_text: OptionalText = None
    cast: Present | None = None


class Record(BaseModel):
    """A record of any form. What a form does not contain is empty.

    `ours` is true if this package wrote the record. Only then is an all-white source an image, and not the
    published mark for text-to-image.
    """

    model_config = ConfigDict(frozen=True)

    form: Form
    user_input: str = ""
    plan: tuple[RecordStep, ...] = ()
    reasoning: str = ""
    cast: Cast = ()
    entries: tuple[RecordEntry, ...] = ()
    ours: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The missing images, as written."""
        shown = [(entry.source, *entry.beside, entry.target) for entry in self.entries]
        images = [image for some in shown for image in some if image]
        return tuple(dict.fromkeys(image.written for image in images if image.missing))


class Meaning(str, Enum):
    """Meaning of `refine_prompt`. The values are part of the file format."""

    proposal = "proposal"
    drawn_with = "drawn with"


@dataclass(frozen=True)
class WrittenAttempt:
    """An attempt as written in a file.

    `prompt` is the step's own prompt. `drawn_with` is the prompt used, in files that contain it separately.
    """

    prompt: str | None
    refine_prompt: str | None
    success: bool | None
    drawn_with: str | None = None


@dataclass(frozen=True)
class Prompts:
    """The prompt used for an attempt (`None`: unknown), and the critic's refined prompt.

    `proposed` is empty if there was none, and `None` if it is unknown.
    """

    drawn_with: str | None
    proposed: str | None


def meaning_of(steps: Sequence[Sequence[WrittenAttempt]]) -> Meaning | None:
    """Return the meaning that fits the attempts of each step; `None` if neither does."""
    if all(_can_be_drawn_with(step) for step in steps):
        return Meaning.drawn_with
    if all(_can_be_proposal(step) for step in steps):
        return Meaning.proposal
    return None


def prompts_of(step: Sequence[WrittenAttempt], meaning: Meaning) -> list[Prompts]:
    """Return the prompts of a step's attempts."""
    if meaning is Meaning.proposal:
        return _of_proposals(step)
    drawn = [one.refine_prompt or one.prompt for one in step]
    found: list[Prompts] = []
    for number, one in enumerate(step):
        later = drawn[number + 1] if number + 1 < len(step) else None
        proposed = "" if one.success else later if later != drawn[number] else None
        found.append(Prompts(drawn[number], proposed))
    return found


def drawn_after(drawn_with: str | None, proposed: str | None) -> str | None:
    """Return the prompt of the next attempt: the refined prompt, else the same prompt."""
    return proposed or drawn_with


def _of_proposals(step: Sequence[WrittenAttempt]) -> list[Prompts]:
    found: list[Prompts] = []
    following = step[0].prompt if step else None
    for one in step:
        drawn = one.drawn_with or following or one.prompt
        proposed = "" if one.success else one.refine_prompt or ""
        found.append(Prompts(drawn, proposed))
        following = drawn_after(drawn, proposed)
    return found


def _can_be_drawn_with(step: Sequence[WrittenAttempt]) -> bool:
    return all(one.refine_prompt for one in step) and (
        not step or _same(step[0].refine_prompt, step[0].prompt)
    )


def _can_be_proposal(step: Sequence[WrittenAttempt]) -> bool:
    return all(
        not one.success or not one.refine_prompt or _same(one.refine_prompt, prompts.drawn_with)
        for one, prompts in zip(step, _of_proposals(step), strict=True)
    )


def _same(one: str | None, other: str | None) -> bool:
    return (one or "").strip() == (other or "").strip()

"""An execution record as it is read, whichever of its forms it had.

Decision: a picture is opened when it is asked for and may be missing, and what a form does not hold is empty
or None, so that who uses a record need not know its form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..errors import JournalError, PictureError
from ..pictures import Picture
from ..types import Text
from ..values import ValidTexts

Form = Literal["attempts", "last", "texts"]


class RecordImage(BaseModel):
    """An image of a record: the path as it was written, and the file if it is there."""

    model_config = ConfigDict(frozen=True)

    written: str
    file: Path | None = None

    @property
    def missing(self) -> bool:
        """Whether there is no such file."""
        return self.file is None

    def open(self) -> Picture:
        """Read the picture; raises JournalError if it is missing, too large or damaged."""
        if self.file is None:
            raise JournalError(f"Image {self.written!r} of the record is missing.")
        try:
            return Picture.open(self.file)
        except PictureError as error:
            raise JournalError(f"Image {self.written!r} of the record cannot be read ({error}).") from error


def stated(value: Any) -> Any:
    """A text of a record, None for one that says nothing ("" and the word None)."""
    return None if value in ("", "None") else value


def none_to_empty(value: Any) -> Any:
    """A text where a record says null."""
    return "" if value is None else value


def none_to_nothing(value: Any) -> Any:
    """A list where a record says null."""
    return () if value is None else value


Words = Annotated[Text, BeforeValidator(none_to_empty)]
OptionalText = Annotated[Text | None, BeforeValidator(stated)]
WrittenPath = Annotated[Annotated[str, Field(max_length=4096)] | None, BeforeValidator(stated)]


class RecordEntry(BaseModel):
    """One attempt (forms "attempts" and "last") or one finished step (form "texts"); steps are counted from
    1.

    `prompt` is the step's original one, `drawn_with` the one that the target was drawn with (None: unknown),
    `proposed` what the critic proposed after seeing it ("": nothing, as after True; None: unknown).
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
    """A step of the record's plan."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    step_number: int = Field(ge=0, le=10**9)
    step_name: Words = ""
    instruction: OptionalText = None
    prompt: OptionalText = None
    auxiliary_text: OptionalText = None


class Record(BaseModel):
    """A record of any form; what a form does not hold is empty. `ours` if it was written by this package:
    only then is an all-white source a picture, and not the published sign for "drawn from text"."""

    model_config = ConfigDict(frozen=True)

    form: Form
    user_input: str = ""
    plan: tuple[RecordStep, ...] = ()
    reasoning: str = ""
    entries: tuple[RecordEntry, ...] = ()
    ours: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The images, as written, that are not there."""
        shown = [(entry.source, *entry.beside, entry.target) for entry in self.entries]
        images = [image for some in shown for image in some if image]
        return tuple(dict.fromkeys(image.written for image in images if image.missing))

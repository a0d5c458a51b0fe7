"""An execution record in memory, independent of its form in the file.

Images are opened on demand and may be missing. What a form does not contain is empty or `None`, so users of a
record need not know its form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..cast import Cast, Present
from ..errors import JournalError, PictureError
from ..pictures import Picture
from ..types import Text
from ..values import ValidTexts

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

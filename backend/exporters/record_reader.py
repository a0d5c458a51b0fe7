"""Reads `execution_record.json` in the three forms found in the wild (FORMATS: data files).

Decision: a record is a stranger's file. Its image paths are only followed inside its own folder and never through a
link; pictures are opened when asked for, so a record of ten thousand entries costs no more than its JSON; an image that
is not there is kept as missing, because published records often travel without their pictures. A verdict is a bool, one
of the spellings of a bool, or unknown (None); anything else is an error and not a guess.
"""

from __future__ import annotations

import re
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..bounded_reader import read_json
from ..errors import JournalError, PictureError
from ..pictures import Picture
from ..types import MAX_STEPS, Text

FILE_NAME = "execution_record.json"
MAX_RECORD_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 10_000

STEP_NUMBER = re.compile(r"^[0-9]{1,9}$")

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


def _read_success(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False, "none": None, "null": None, "": None}.get(
            value.strip().lower(), value
        )
    return value


def _empty_to_none(value: Any) -> Any:
    return None if value in ("", "None") else value


def _none_to_empty(value: Any) -> Any:
    return "" if value is None else value


Words = Annotated[Text, BeforeValidator(_none_to_empty)]
OptionalText = Annotated[Text | None, BeforeValidator(_empty_to_none)]
WrittenPath = Annotated[Annotated[str, Field(max_length=4096)] | None, BeforeValidator(_empty_to_none)]


class _Entry(BaseModel):
    """One entry as written, in any of the forms."""

    model_config = ConfigDict(extra="ignore")

    step: int = Field(ge=1)
    prompt: OptionalText = None
    refine_prompt: OptionalText = None
    source_img: WrittenPath = None
    target_img: WrittenPath = None
    image: WrittenPath = None
    success: Annotated[Annotated[bool, Field(strict=True)] | None, BeforeValidator(_read_success)] = None
    reasoning: Words = ""
    text: Words = ""


class RecordEntry(BaseModel):
    """One attempt (forms "attempts" and "last") or one told step (form "texts").

    `prompt` is the step's original one, `refine_prompt` the one drawn with (None: the original).
    """

    model_config = ConfigDict(frozen=True)

    step: int
    prompt: str | None = None
    refine_prompt: str | None = None
    source: RecordImage | None = None
    target: RecordImage | None = None
    success: bool | None = None
    reasoning: str = ""
    text: str = ""


class RecordStep(BaseModel):
    """A step of the record's plan."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    step_number: int = Field(ge=1)
    step_name: Words = ""
    instruction: OptionalText = None
    prompt: OptionalText = None
    auxiliary_text: OptionalText = None


class Record(BaseModel):
    """A record of any form; what a form does not hold is empty."""

    model_config = ConfigDict(frozen=True)

    form: Form
    user_input: str = ""
    plan: tuple[RecordStep, ...] = ()
    reasoning: str = ""
    entries: tuple[RecordEntry, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The images, as written, that are not there."""
        images = [image for entry in self.entries for image in (entry.source, entry.target) if image]
        return tuple(dict.fromkeys(image.written for image in images if image.missing))


class _Context(BaseModel):
    model_config = ConfigDict(extra="ignore")

    execution_plan: tuple[RecordStep, ...] = Field(default=(), max_length=MAX_STEPS)
    reasoning: Words = ""


class _Attempts(BaseModel):
    """Form (a)."""

    model_config = ConfigDict(extra="ignore")

    user_input: Words = ""
    global_context: _Context = _Context()
    steps: tuple[_Entry, ...] = Field(max_length=MAX_ENTRIES)


class _Entries(BaseModel):
    """Forms (b) and (c), brought to a list."""

    steps: tuple[_Entry, ...] = Field(max_length=MAX_ENTRIES)


def read_record(path: str | Path) -> Record:
    """Read a record file, or the one in a folder. Raises JournalError if it is damaged, of no known form, too large, or
    names an image outside its folder."""
    path = Path(path)
    path = path / FILE_NAME if path.is_dir() else path
    data = _load(path)
    try:
        if isinstance(data, dict) and "steps" in data:
            whole = _Attempts.model_validate(data)
            context = whole.global_context
            return Record(
                form="attempts",
                user_input=whole.user_input,
                plan=context.execution_plan,
                reasoning=context.reasoning,
                entries=_entries(whole.steps, path.parent),
            )
        if isinstance(data, dict) and data and all(STEP_NUMBER.match(key) for key in data):
            numbered = sorted(((int(key), value) for key, value in data.items()), key=lambda item: item[0])
            rows = [
                {**value, "step": number} if isinstance(value, dict) else value for number, value in numbered
            ]
            return Record(
                form="last", entries=_entries(_Entries.model_validate({"steps": rows}).steps, path.parent)
            )
        if isinstance(data, list):
            entries = _Entries.model_validate({"steps": data}).steps
            return Record(form="texts", entries=_entries(entries, path.parent))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise JournalError(
            f"{str(path)!r}: {where}: {first['msg']}.", "It is not an execution record."
        ) from error
    raise JournalError(
        f"{str(path)!r} has none of the known forms of an execution record.",
        "Known: an object with `steps`, an object of step numbers, a list of steps.",
    )


def _load(path: Path) -> Any:
    return read_json(path, JournalError, "Record", MAX_RECORD_BYTES)


def _entries(entries: tuple[_Entry, ...], folder: Path) -> tuple[RecordEntry, ...]:
    return tuple(
        RecordEntry(
            step=entry.step,
            prompt=entry.prompt,
            refine_prompt=entry.refine_prompt,
            source=_image(entry.source_img, folder),
            target=_image(entry.target_img or entry.image, folder),
            success=entry.success,
            reasoning=entry.reasoning,
            text=entry.text,
        )
        for entry in entries
    )


def _image(written: str | None, folder: Path) -> RecordImage | None:
    """The image at a written path, which must lie in `folder` without going through a link."""
    if written is None:
        return None
    folder = folder.resolve()
    path = Path(written.replace("\\", "/"))
    if "\0" in written or PureWindowsPath(written).drive:
        raise JournalError(f"The record names the image {written!r}, which is no path inside its folder.")
    # Lexical first: `..` is resolved without touching the disk, so nothing outside is even looked at.
    parts: list[str] = []
    for part in (path.relative_to(folder) if path.is_relative_to(folder) else path).parts:
        if part == ".." and parts:
            parts.pop()
        elif part == ".." or part == path.anchor:
            raise JournalError(
                f"The record names the image {written!r}, which lies outside its folder.",
                "Put the images beside the record and name them by relative paths.",
            )
        else:
            parts.append(part)
    file = folder.joinpath(*parts)
    try:
        if any(
            step.is_symlink()
            for step in (file, *file.parents)
            if step.is_relative_to(folder) and step != folder
        ):
            raise JournalError(f"The record's image {written!r} is a link, which is not followed.")
        if not file.exists():
            return RecordImage(written=written)
        if not file.is_file():
            raise JournalError(f"The record's image {written!r} is not a file.")
    except OSError as error:
        raise JournalError(
            f"The record's image {written!r} cannot be looked up ({error.strerror})."
        ) from error
    return RecordImage(written=written, file=file)

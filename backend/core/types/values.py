"""Base of stored values, the files that they name, and the limits of their texts."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from ..errors import SettingsError, first_fault
from ..pictures import Picture
from ..shown_text import valid_text

MAX_TEXT = 100_000
MAX_IMAGE_NAME = 1_000
LORA_SUFFIX = ".safetensors"

DIRECT: dict[str, JsonValue] = {"direct": True}
"""`json_schema_extra` of a setting that people change often.

Such a setting has an option of its own on the command line. All others are set with `--set NAME=VALUE`.
"""


def setting(description: str, default: Any = None, **limits: Any) -> Any:
    """Return the field of a setting. The limits are those of pydantic's `Field`."""
    return Field(default=default, description=description, **limits)


def option(description: str, default: Any = None, **limits: Any) -> Any:
    """Return the field of a setting that has an option of its own on the command line."""
    return setting(description, default, json_schema_extra=DIRECT, **limits)


Text = Annotated[str, Field(max_length=MAX_TEXT)]
Item = TypeVar("Item")
Options = TypeVar("Options", bound=BaseModel)
Several = Annotated[tuple[Item, ...], FailFast()]
"""Values in order. Validation stops at the first error, because a million errors would take a gigabyte."""


class ValidTexts(BaseModel):
    """Base of models that read external text. Repairs invalid Unicode in all texts before validation."""

    @model_validator(mode="before")
    @classmethod
    def _make_valid(cls, given: Any) -> Any:
        return {name: _valid(one) for name, one in given.items()} if isinstance(given, dict) else given


def _valid(value: Any) -> Any:
    """Repair the texts of a field. Nested models repair their own."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, (list, tuple)) and any(isinstance(one, str) for one in value):
        return type(value)(_valid(one) for one in value)
    return value


class Value(ValidTexts):
    """Base of all stored values. They are frozen, their texts are valid, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    past_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that earlier versions stored. They are ignored."""

    @model_validator(mode="before")
    @classmethod
    def _without_past_fields(cls, given: Any) -> Any:
        if not cls.past_fields or not isinstance(given, dict):
            return given
        return {name: one for name, one in given.items() if name not in cls.past_fields}


class SparseValue(Value):
    """A value that is written without some fields while they have their defaults.

    Earlier versions did not have these fields and reject unknown ones, so they can read such a value.
    """

    omitted: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_omitted(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written = fields(self)
        for name in self.omitted:
            default = type(self).model_fields[name].get_default(call_default_factory=True)
            if getattr(self, name) == default:
                written.pop(name, None)
        return written


class StepImage(Value):
    """An image that a step names by its file.

    `picture` is None until the file is read (files/image_places.py). Serialized as the name alone until then,
    and with the image's digest afterwards.
    """

    name: str = Field(min_length=1, max_length=MAX_IMAGE_NAME)
    picture: Picture | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _as_name(self, fields: SerializerFunctionWrapHandler) -> Any:
        return fields(self) if self.picture else self.name


class StepLora(Value):
    """A LoRA that a step names by its file.

    The name is relative to the generator's LoRA folder. `digest` is the content of the file, which the
    generator finds when a run begins. Serialized as the name alone until then.
    """

    name: str = Field(min_length=1, max_length=MAX_IMAGE_NAME)
    digest: str | None = Field(default=None, max_length=200)

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def _inside(cls, name: str) -> str:
        parts = name.replace("\\", "/").split("/")
        if any(part in ("", ".", "..") for part in parts) or ":" in name or "\0" in name:
            raise ValueError(
                "it must be the name of a file in the LoRA folder, without .. and not a full path"
            )
        if not name.lower().endswith(LORA_SUFFIX):
            raise ValueError(f"it must be a {LORA_SUFFIX} file")
        return name

    @model_serializer(mode="wrap")
    def _as_name(self, fields: SerializerFunctionWrapHandler) -> Any:
        return fields(self) if self.digest else self.name


def read_options(what: str, kind: type[Options], given: dict[str, Any]) -> Options:
    """Return options with these values.

    Args:
        what: What the options belong to, for the error, such as "Generator 'http'".
        kind: Class of the options.
        given: Their values.

    Raises:
        SettingsError: A value is invalid; the message names the option.
    """
    try:
        return kind(**given)
    except ValidationError as error:
        fault = first_fault(error)
        named = f"{fault.place}={str(fault.value)[:100]}"
        raise SettingsError(f"{what}, option {named}: {fault.reason}.") from error


def bounded_identity(text: str) -> str:
    """Return an identity of at most about MAX_TEXT characters, the maximum that a record accepts.

    A longer text (a huge negative prompt, hundreds of references) becomes its first 1,000 characters and the
    SHA-256 digest of the whole.
    """
    if len(text) <= MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:1000]}... sha256={digest}"

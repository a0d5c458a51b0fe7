"""The errors that a user can meet. Each message names the failure, its place and the remedy.

All errors have one base class, so a node, the command line or a training can show any of them with
`str(error)`. `boundary` is the only place that converts a foreign exception into one of these errors. A
failed generation or judgement is then stored in the attempt (types.Fault) and the run is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from .shown_text import shown_text

if TYPE_CHECKING:
    from pydantic import ValidationError


Told = TypeVar("Told", bound="InterleaveError")


class InterleaveError(Exception):
    """Base class of all errors of this package.

    Attributes:
        hint: One sentence with the remedy.
        lasting: Whether every attempt of the next minutes would fail too. Such an error ends a run at once.
    """

    lasting = False

    def __init__(self, message: str, hint: str = "") -> None:
        # Names, servers and libraries put foreign text into errors, which are shown on terminals and in logs.
        self.message, self.hint = shown_text(message), shown_text(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def told_as(self, kind: type[Told], message: str) -> Told:
        """Return an error of this kind with another message, the same hint and as lasting."""
        error = kind(message, self.hint)
        error.lasting = self.lasting
        return error


class SettingsError(InterleaveError):
    """A setting, name or path given by the user cannot be used."""


class SourceMissing(SettingsError):
    """The source image of a step is missing."""


class AnswerError(InterleaveError):
    """An agent's reply cannot be read.

    `quote` is the part of the reply that is wrong, `problem` the message without it.
    """

    def __init__(self, message: str, quote: str = "", hint: str = "") -> None:
        shown = quote if len(quote) <= 200 else f"{quote[:120]} ... {quote[-60:]}"
        super().__init__(f"{message} In: {shown!r}." if quote else message, hint)
        self.quote = quote
        self.problem = shown_text(message)


class ChatError(InterleaveError):
    """A chat backend failed to reply (no checkpoint, out of memory, server unreachable...)."""


class ModelMissing(ChatError, SettingsError):
    """The folder or file of a model, named by the user, does not exist."""


class ServerError(ChatError):
    """A chat server is unreachable, busy or refuses the request.

    Retries, where they help, were already made.
    """


class GeneratorError(InterleaveError):
    """A generator could not generate an image."""


class OutOfMemory(GeneratorError):
    """A generator ran out of memory. A smaller image, or fewer images at a time, may fit."""


class DrawRefused(GeneratorError):
    """An image service refuses the prompt (moderation). A retry would be refused again."""


class ScorerError(InterleaveError):
    """A scorer could not score an image."""


class NotScorable(ScorerError):
    """The scorer works, but this image or instruction cannot be scored. A retry would fail again."""


class JournalError(InterleaveError):
    """A run folder cannot be read or written: foreign, damaged, too new, or a path outside of it."""


class RunMissing(JournalError, SettingsError):
    """A folder, named by the user, does not contain a run."""


class PictureError(InterleaveError):
    """An image file or buffer is missing, damaged or too large."""


class TrainingError(InterleaveError):
    """Training cannot continue.

    The model collapsed, too many inputs failed, or a checkpoint is from another run.
    """


class Cancelled(InterleaveError):
    """The user stopped the run. Finished work is kept."""


REASONS: Mapping[str, str] = {
    "missing": "it is missing",
    "string_type": "it must be a text",
    "string_too_long": "it must have at most {max_length} characters",
    "string_too_short": "it must have at least {min_length} characters",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_parsing_size": "it must be a whole number of at most 15 digits",
    "int_from_float": "it must be a whole number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "finite_number": "it must be a finite number",
    "greater_than_equal": "it must be at least {ge}",
    "less_than_equal": "it must be at most {le}",
    "tuple_type": "it must be a list",
    "list_type": "it must be a list",
    "model_type": "it must be an object with keys",
    "model_attributes_type": "it must be an object with keys",
    "dict_type": "it must be an object with keys",
    "too_short": "it must have at least {min_length} entries",
    "too_long": "it must have at most {max_length} entries",
    "extra_forbidden": "it is not a known name",
}
"""Explanations of pydantic's types of errors, for users."""


class FieldFault(NamedTuple):
    """The first error of a validation.

    Attributes:
        loc: Keys and indices that lead to the field; empty for the value as a whole.
        reason: What is wrong, without Python terms.
        value: The value of the field.
        kind: pydantic's type of the error.
    """

    loc: tuple[int | str, ...]
    reason: str
    value: Any
    kind: str

    @property
    def place(self) -> str:
        """The field as keys and indices with dots. Keys of foreign files are shortened."""
        return ".".join(str(part)[:200] for part in self.loc)

    def __str__(self) -> str:
        return f", field {self.place!r}: {self.reason}." if self.loc else f": {self.reason}."


def first_fault(error: ValidationError, model: Any = None) -> FieldFault:
    """Return the first error of a validation. Its text can be appended to the name of a file.

    Args:
        error: The error.
        model: The pydantic model that was validated. The reason of an unknown key then names the known ones.
    """
    first = error.errors(include_url=False)[0]
    kind, context = first["type"], first.get("ctx", {})
    if kind == "value_error":
        # These come from the validators of this package, whose texts are written for users.
        reason = str(context["error"])
    elif kind in REASONS:
        reason = REASONS[kind].format(**context)
        for part in first["loc"][:-1] if kind == "extra_forbidden" else ():
            if isinstance(part, str) and model is not None:
                model = _model_in(model.model_fields[part].annotation)
        if kind == "extra_forbidden" and model is not None:
            reason = f"it is not a known key (known: {', '.join(model.model_fields)})"
    else:
        reason = first["msg"].replace("Input should be ", "it must be ")
    return FieldFault(first["loc"], reason, first["input"], kind)


def _model_in(annotation: Any) -> Any:
    """Return the pydantic model in an annotation such as `tuple[Step, ...] | None`, or None."""
    if hasattr(annotation, "model_fields"):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


OUT_OF_MEMORY_PHRASES = (
    "out of memory",
    "not enough memory",
    "can't allocate",
    "cannot allocate",
    "unable to allocate",
    "allocation on device",
    "alloc_failed",
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, reports that memory ran out."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, RuntimeError) and any(
            words in str(error).lower() for words in OUT_OF_MEMORY_PHRASES
        ):
            return True
        if type(error).__name__ == "OutOfMemoryError":
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def boundary(kind: type[InterleaveError], where: str, hint: str = "") -> Iterator[None]:
    """Convert any foreign exception inside the block into `kind`. Errors of this package pass unchanged.

    Args:
        kind: Class of the new error.
        where: Start of its message: what failed.
        hint: What the user can do.

    Raises:
        InterleaveError: Of class `kind`, for a foreign exception.
    """
    try:
        yield
    except InterleaveError:
        raise
    except Exception as error:
        message = f"{where}: {type(error).__name__}: {error}".rstrip(". ") + "."
        raise kind(message, hint=torchvision_repair(error) or hint) from error


def torchvision_repair(error: BaseException | None) -> str:
    """Return how to repair torchvision if an error, or its cause, is that it does not load with this torch.

    transformers and diffusers import torchvision themselves and hide the reason behind the name of a class.

    Returns:
        One sentence with the command, or "" for another error.
    """
    while error is not None:
        if "torchvision::" in str(error):
            build = version("torch").partition("+")[2]
            index = f" --index-url https://download.pytorch.org/whl/{build}" if build else ""
            return (
                f"torch {version('torch')} and torchvision {version('torchvision')} do not belong "
                f"together. Reinstall both with: pip install --force-reinstall torch torchvision{index}"
            )
        error = error.__cause__ or error.__context__
    return ""

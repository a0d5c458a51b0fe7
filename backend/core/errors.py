"""The errors that a user can meet. Each message names the failure, its place and the remedy.

All errors have one base class, so a node, the command line or a training can show any of them with
`str(error)`. `boundary` is the only place that converts a foreign exception into one of these errors. A
failed generation or judgement is then stored in the attempt (types.Fault) and the run is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from .shown_text import shown_text


class InterleaveError(Exception):
    """Base class of all errors of this package. `hint` is one sentence with the remedy."""

    def __init__(self, message: str, hint: str = "") -> None:
        # Names, servers and libraries put foreign text into errors, which are shown on terminals and in logs.
        self.message, self.hint = shown_text(message), shown_text(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


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


class PictureError(InterleaveError):
    """An image file or buffer is missing, damaged or too large."""


class TrainingError(InterleaveError):
    """Training cannot continue.

    The model collapsed, too many inputs failed, or a checkpoint is from another run.
    """


class Cancelled(InterleaveError):
    """The user stopped the run. Finished work is kept."""


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

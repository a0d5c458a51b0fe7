"""The few errors a person can meet, each saying what was wrong, where, and what to do.

One flat set with one base class, so a node, the command line or a training loop can show any of them with
`str(error)` and nothing else. `boundary` is the only place that turns a foreign exception into one of ours:
a failed draw or judgement then becomes a value in the attempt (types.Fault) and not a lost run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .shown_text import shown_text


class InterleaveError(Exception):
    """Base of every error of this package; `hint` is one sentence that says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        # Names, servers and libraries put foreign text into errors, and errors are shown on terminals and in
        # logs.
        self.message, self.hint = shown_text(message), shown_text(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SettingsError(InterleaveError):
    """A setting, name or path given by the user cannot be used."""


class SourceMissing(SettingsError):
    """The image that a step is to edit is not there."""


class AnswerError(InterleaveError):
    """An agent's answer cannot be read; `quote` holds the offending part of it."""

    def __init__(self, message: str, quote: str = "", hint: str = "") -> None:
        shown = quote if len(quote) <= 200 else f"{quote[:120]} ... {quote[-60:]}"
        super().__init__(f"{message} In: {shown!r}." if quote else message, hint)
        self.quote = quote


class ChatError(InterleaveError):
    """A chat backend could not give a reply (no checkpoint, out of memory, server unreachable...)."""


class ServerError(ChatError):
    """A chat server cannot be reached, is busy or refuses; it was asked again where that can help."""


class GeneratorError(InterleaveError):
    """A generator could not draw an image."""


class OutOfMemory(GeneratorError):
    """A generator had no memory for an image: a smaller one, or fewer at a time, may go."""


class DrawRefused(GeneratorError):
    """A service will not draw this (moderation): asked again, it would refuse again."""


class ScorerError(InterleaveError):
    """A scorer could not score an image."""


class JournalError(InterleaveError):
    """A run's folder cannot be read or written: foreign, damaged, too new, or outside the folder."""


class PictureError(InterleaveError):
    """An image file or buffer is missing, damaged or too large."""


class TrainingError(InterleaveError):
    """Training cannot go on: the model collapsed, too much of what it needs failed, or a checkpoint is of
    another run."""


class Cancelled(InterleaveError):
    """The user stopped the run; what was finished is kept."""


OUT_OF_MEMORY_PHRASES = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "allocation on device",
    "alloc_failed",
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, says that there is no memory left."""
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
    """Turn any foreign exception inside into `kind`, naming `where`; our own errors pass unchanged."""
    try:
        yield
    except InterleaveError:
        raise
    except Exception as error:
        raise kind(f"{where}: {type(error).__name__}: {error}".rstrip(". ") + ".", hint=hint) from error

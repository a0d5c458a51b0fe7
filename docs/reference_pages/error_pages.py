"""The page of the errors: the classes of `backend/core/errors.py` and of the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .markdown import code, note, page, table, text

STATUSES = {"NoRoute": "404, 405"}
"""Statuses of errors that have another one by request."""
INTRODUCTION = """
Every error of the package derives from `InterleaveError`. Its text states what failed, where, and what to
do. `error.message` is the first part and `error.hint` the advice. The command line prints the text after
`Error:` and exits with the code below; ComfyUI shows the class and the text at the node that failed.
"""
FAILURES = """
## Failures that do not raise

An image that could not be generated or judged does not end a run. The error becomes part of the attempt
(`attempt.error`), the loop continues with the next attempt, and the report names the error. A run stops
early if two judgments in a row fail, or when it is cancelled. [Exit codes of the command
line](command-line.md#exit-codes).
"""
SERVICE = """
## HTTP statuses of the image service

`interleave-thinker serve` answers a request without an image with one of these statuses. The published
protocol always has the field `success`; a refusal by the model itself is status 200 with `success:
false`.
"""


def pages(root: Path) -> dict[str, str]:
    """Return the page `errors.md`."""
    from interleave_thinker.backend.core import errors
    from interleave_thinker.service import front, pool  # noqa: F401 - errors of other modules derive from pool's
    from interleave_thinker.service.web import app  # noqa: F401

    rows = [
        (
            code(kind.__name__),
            code(kind.__bases__[0].__name__),
            _exit_code(kind, errors),
            text(kind.__doc__ or ""),
        )
        for kind in _family(errors.InterleaveError)
        if kind.__module__ == errors.__name__
    ]
    served = [
        (code(kind.__name__), STATUSES.get(kind.__name__, str(kind.status)), text(kind.__doc__ or ""))
        for kind in sorted(_family(pool.ServiceError), key=lambda one: (one.status, one.__name__))
        if kind is not pool.ServiceError
    ]
    return {
        "errors.md": page(
            "# Errors",
            note("`backend/core/errors.py` and `service/`"),
            INTRODUCTION,
            "## Classes",
            table(("Class", "Base", "Exit code", "Raised when"), rows),
            FAILURES,
            SERVICE,
            table(("Class", "Status", "Meaning"), served),
        )
    }


def _family(kind: type) -> Iterator[type]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _family(inner)


def _exit_code(kind: type, errors: object) -> str:
    if issubclass(kind, errors.Cancelled):  # type: ignore[attr-defined]
        return "130"
    return "2" if issubclass(kind, errors.SettingsError) else "1"  # type: ignore[attr-defined]

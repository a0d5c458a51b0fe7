"""What came into a node as a settings value, or one line that says which input cannot be so.

Decision: the host looks at the bounds of a widget, but not at those of a value on a wire, and lets NaN
through both; the settings' own bounds are therefore what counts, and a value out of them is reported as any
other error of the pack's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...backend.errors import InterleaveError, SettingsError
from ...backend.journal.files import first_fault

Settings = TypeVar("Settings", bound=BaseModel)


def fault_of(check: Callable[[], object], **texts: object) -> bool | str:
    """Return the result of a node's `validate_inputs`: the message of the error that `check` raises, or True.

    The host asks before anything runs, so a wrong value is not found only after a whole story. It reports the
    message once for each parameter of `validate_inputs` and leaves out its own checks of these inputs. An
    input on a wire is `None`, and a program can send any value where text belongs: `texts` are checked first.
    """
    try:
        only_text("This node", **texts)
        check()
    except InterleaveError as error:
        return str(error)
    return True


def checked(kind: type[Settings], node: str, **values: Any) -> Settings:
    """Settings of these values; raises SettingsError naming the node and the first field that is out of
    range."""
    try:
        return kind(**values)
    except ValidationError as error:
        raise SettingsError(f"{node}{first_fault(error)}", "Look at what is connected to it.") from error


def in_range(node: str, lowest: float, highest: float, **values: float) -> None:
    """Raise SettingsError for the first value that is no number from `lowest` to `highest`."""
    for name, value in values.items():
        if not math.isfinite(value) or not lowest <= value <= highest:
            raise SettingsError(
                f"{node}, field {name!r}: {value!r:.40} is not from {lowest:g} to {highest:g}.",
                "Look at what is connected to it.",
            )


def only_text(node: str, **values: object) -> None:
    """Raise SettingsError for the first value that is no text: the host lets any value through to a list of
    choices."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise SettingsError(f"{node}, field {name!r}: {value!r:.60} is no text.")

"""Validation of a node's inputs.

The host checks the bounds of a widget, but not of a value on a wire, and accepts NaN in both. So the bounds
of the settings count, and a value outside them is reported like any other error of the pack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...backend.errors import InterleaveError, SettingsError
from ...backend.journal.records.run_files import first_fault

Settings = TypeVar("Settings", bound=BaseModel)


def fault_of(check: Callable[[], object], **texts: object) -> bool | str:
    """Return the result of a node's `validate_inputs`: the message of the error that `check` raises, or True.

    The host asks before anything runs, so a wrong value is found before a whole story is generated. It
    reports the message once for each parameter of `validate_inputs` and skips its own checks of these inputs.
    An input on a wire is `None`, and a program can send any value instead of text: `texts` are checked first.
    """
    try:
        only_text("This node", **texts)
        check()
    except InterleaveError as error:
        return str(error)
    return True


def checked(kind: type[Settings], node: str, /, **values: Any) -> Settings:
    """Return the settings of these values.

    Raises:
        SettingsError: A value is out of range. The message names the node and the field.
    """
    try:
        return kind(**values)
    except ValidationError as error:
        raise SettingsError(f"{node}{first_fault(error)}", "Check what is connected to it.") from error


def in_range(node: str, lowest: float, highest: float, **values: float) -> None:
    """Check that values are numbers from `lowest` to `highest`.

    Raises:
        SettingsError: One is not.
    """
    for name, value in values.items():
        is_number = isinstance(value, (int, float)) and math.isfinite(value)
        if not is_number or not lowest <= value <= highest:
            raise SettingsError(
                f"{node}, field {name!r}: {value!r:.40} is not between {lowest:g} and {highest:g}.",
                "Check what is connected to it.",
            )


def only_text(node: str, **values: object) -> None:
    """Check that values are text: the host accepts any value on a wire for a list of choices.

    Raises:
        SettingsError: One is not.
    """
    for name, value in values.items():
        if not isinstance(value, str):
            raise SettingsError(
                f"{node}, field {name!r}: {value!r:.60} is not text.", "Check what is connected to it."
            )

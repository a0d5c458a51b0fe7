"""Validation of a node's inputs: bounds and types, strictness of critics, and required libraries.

The host checks the bounds of a widget, but not of a value on a wire, and accepts NaN in both. So the bounds
of the settings count, and a value outside them is reported like any other error of the pack. The pack shares
the host's Python with everything else the user has installed. So it must load in any environment, and the
node that needs a library reports the command that repairs it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...backend.core.errors import InterleaveError, SettingsError, first_fault
from ...backend.core.machine.libraries import is_too_old, least

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


class Options(list[str]):
    """Choices of a list that also accept values of older workflows. The host looks for a value with `in`."""

    def __init__(self, options: Iterable[str], former: str = "") -> None:
        super().__init__(options)
        self.former = former

    def __contains__(self, value: object) -> bool:
        return value == self.former or super().__contains__(value)


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


FROM_THE_AGENT = "from the agent"
LEVELS = {"lenient": 0.3, "normal": 0.5, "strict": 0.8}
STRICTNESS: dict[str, float | None] = {FROM_THE_AGENT: None, **LEVELS}
"""Acceptance threshold (0..1) of each choice of an agent's node; `None` is the critic's own verdict."""
OWN_VERDICT, CUSTOM = "critic's own verdict", "custom"
CHOICES: dict[str, float | None] = {OWN_VERDICT: None, **LEVELS}
"""Acceptance threshold (0..1) of each choice of a node that judges, `CUSTOM` aside."""


def accept_at_of(critic: Any, strictness: str, accept_at: float) -> float | None:
    """Return the acceptance threshold that a node judges with, in 0..1.

    Args:
        critic: Agent that judges, which may carry an `accept_at` of its own, or `None`.
        strictness: One of `CHOICES`, or `CUSTOM`.
        accept_at: Used with `CUSTOM` only. 0 takes the agent's threshold.

    Returns:
        The threshold, or `None` for the critic's own verdict.

    Raises:
        SettingsError: `strictness` is not one of the choices.
    """
    if strictness == CUSTOM:
        return accept_at or getattr(critic, "accept_at", None)
    if strictness not in CHOICES:
        raise SettingsError(
            f"Unknown strictness {strictness!r:.60}.", f"Choose one of: {', '.join(CHOICES)}, {CUSTOM}."
        )
    return CHOICES[strictness]


REASONS = {
    "transformers": "to read Qwen3-VL agents",
    "torchvision": "to pass images to Qwen3-VL agents",
    "diffusers": "to run diffusers pipelines and the tiny world",
    "peft": "to apply a LoRA adapter to an agent",
    "bitsandbytes": "to load an agent in 8-bit or 4-bit",
    "accelerate": "to load an agent in 8-bit or 4-bit",
    "httpx": "to connect to a server",
    "tenacity": "to connect to a server",
    "huggingface-hub": "to download an agent",
    "fpdf2": "to export PDF files",
    "fonttools": "to export PDF files",
}
LIBRARY_FAULTS = (ImportError, AttributeError, RuntimeError, OSError)


def check_library(name: str) -> None:
    """Check that a library of `REASONS` is installed in a supported version.

    Raises:
        SettingsError: It is missing or too old. The message has the command that installs it.
    """
    wanted = least(name)
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = ""
    if installed and not is_too_old(name, installed):
        return
    found = f"{name} {installed} is too old" if installed else f"{name} is not installed"
    raise SettingsError(
        f"{found}. Version {wanted} or newer is needed {REASONS[name]}.", _command(f"{name}>={wanted}")
    )


@contextmanager
def require_library(*names: str) -> Iterator[None]:
    """Check libraries, and report their failures inside the block (a broken installation) as one error.

    Raises:
        SettingsError: A library is missing, too old or broken.
    """
    for name in names:
        check_library(name)
    try:
        yield
    except InterleaveError:
        raise
    except LIBRARY_FAULTS as error:
        found = ", ".join(f"{name} {version(name)}" for name in names)
        reason = next(iter(str(error).splitlines()), "")
        raise SettingsError(
            f"{found} failed: {type(error).__name__}: {reason}",
            f"If torch, torchvision and {names[0]} do not match, this repairs them: "
            f"{_command(*names, option='--upgrade')}",
        ) from error


def _command(*requirements: str, option: str = "") -> str:
    option = f" {option}" if option else ""
    named = " ".join(f'"{requirement}"' for requirement in requirements)
    return f'Run: "{sys.executable}" -m pip install{option} {named}'

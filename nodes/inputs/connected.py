"""Checks that the values at a node's sockets have the right type.

The host compares declared types only, and outputs of type "any" fit every socket: "any switch" nodes have
one, and return `None` if nothing is connected to them. So a node checks its sockets first. Agents and
generators are recognized by their methods, since any such object is valid; the pack's own types by their
class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...backend.cast import CastMember
from ...backend.errors import SettingsError
from ...backend.types import Trajectory
from .sockets import PlannedRequest


@dataclass(frozen=True)
class Kind:
    """A type of socket: its name for messages, and the check of a value."""

    name: str
    fits: Callable[[Any], bool]


def can(*methods: str) -> Callable[[Any], bool]:
    """Return a check whether a value is an object with these methods."""
    return lambda value: (
        not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)
    )


def instance_of(kind: type) -> Callable[[Any], bool]:
    """Return a check whether a value is an instance of this class."""
    return lambda value: isinstance(value, kind)


AGENT = Kind("an agent", can("reply"))
GENERATOR = Kind("a generator", can("draw"))


def _is_cast(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, CastMember) for one in value)


CAST = Kind("a cast", _is_cast)
PLAN = Kind("a plan", instance_of(PlannedRequest))
TRAJECTORY = Kind("a story", instance_of(Trajectory))
MODEL = Kind("a MODEL", can("get_model_object", "clone"))
CLIP = Kind("a CLIP", can("tokenize"))
VAE = Kind("a VAE", can("encode", "decode", "spacial_compression_decode"))


def check_connected(node: str, kind: Kind, **sockets: Any) -> None:
    """Check that the values at sockets have this type.

    Raises:
        SettingsError: One has another type. The message names the node and the input.
    """
    for name, value in sockets.items():
        if not kind.fits(value):
            found = "nothing" if value is None else type(value).__name__
            raise SettingsError(
                f"{node}, input {name!r}: expected {kind.name}, got {found:.60}.",
                "Check what is connected to it.",
            )


def check_optional(node: str, kind: Kind, **sockets: Any) -> None:
    """Check the values at sockets that may be empty.

    Raises:
        SettingsError: As `check_connected`.
    """
    check_connected(node, kind, **{name: value for name, value in sockets.items() if value is not None})

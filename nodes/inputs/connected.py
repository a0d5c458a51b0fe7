"""What arrives at a socket is of the socket's kind, or one line says which socket it is not.

Decision: the host compares the kinds that outputs are declared with, and an output of any kind fits every
socket: "any switch" nodes have one, and give None where nothing arrives at them. So a node looks at its
sockets before anything else. Agents and generators are told by what they can do, since any object that does
it may stand behind the socket; whatever is the pack's own by its class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...backend.errors import SettingsError
from ...backend.types import Trajectory
from .sockets import PlannedRequest


@dataclass(frozen=True)
class Kind:
    """A kind of socket by the name that a person knows it by, and whether a value is of it."""

    name: str
    fits: Callable[[Any], bool]


def can(*methods: str) -> Callable[[Any], bool]:
    """Whether a value, which is no class, has these methods."""
    return lambda value: (
        not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)
    )


def instance_of(kind: type) -> Callable[[Any], bool]:
    """Whether a value is of this class."""
    return lambda value: isinstance(value, kind)


AGENT = Kind("an agent", can("reply"))
GENERATOR = Kind("a generator", can("draw"))
PLAN = Kind("a plan", instance_of(PlannedRequest))
TRAJECTORY = Kind("a trajectory", instance_of(Trajectory))
MODEL = Kind("a MODEL", can("get_model_object", "clone"))
CLIP = Kind("a CLIP", can("tokenize"))
VAE = Kind("a VAE", can("encode", "decode", "spacial_compression_decode"))


def check_connected(node: str, kind: Kind, **sockets: Any) -> None:
    """Raise SettingsError naming the node and the first of its sockets to which something else is
    connected."""
    for name, value in sockets.items():
        if not kind.fits(value):
            found = "nothing" if value is None else type(value).__name__
            raise SettingsError(
                f"{node}, input {name!r}: what is connected gives {found:.60}, and it takes {kind.name}.",
                "Look at what is connected to it.",
            )


def check_optional(node: str, kind: Kind, **sockets: Any) -> None:
    """As `check_connected`, for sockets at which nothing may arrive."""
    check_connected(node, kind, **{name: value for name, value in sockets.items() if value is not None})

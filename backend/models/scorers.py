"""Scorers by name. To add one, write a module with an `open(argument)` function and add it to REGISTRY."""

from __future__ import annotations

import re

from ..core.errors import SettingsError
from ..core.machine import registry
from ..core.machine.registry import Registry
from ..core.seams.adoption import adopt
from ..core.seams.scorer import Scorer

REGISTRY = {"tinyworld": "...tinyworld.scorer", "judge": ".judge"}
SCORERS = Registry("scorer", REGISTRY, __name__.removesuffix(".scorers"), registry.SCORERS)
WITH_OPTIONS = re.compile(r"([\w.-]+)\[([^\]]*)\](?::(.*))?", re.DOTALL)
BOOLEANS = {"true": True, "false": False}

__all__ = ["REGISTRY", "SCORERS", "Scorer", "open_scorer"]


def check_scorer(spec: str) -> None:
    """Check the name of a scorer without loading its model. Raises SettingsError as `open_scorer`."""
    SCORERS.load(re.split(r"[:\[]", spec)[0])


def open_scorer(spec: str, **options: object) -> Scorer:
    """Open a scorer by name, built in or from an installed plug-in.

    Args:
        spec: `NAME`, `NAME:ARGUMENT` or `NAME[OPTION=VALUE,...]:ARGUMENT`, such as `judge:CHAT-SPEC`.
        **options: Options of the backend, such as `device`. None leaves an option at its default. Options in
            the spec replace them.

    Raises:
        SettingsError: The name is unknown, its module cannot be imported, or an option cannot be read or is
            not supported.
    """
    found = WITH_OPTIONS.fullmatch(spec)
    if found is None:
        return adopt(SCORERS.open(spec, **options), Scorer)
    name, given, argument = found.groups()
    own: dict[str, str | bool] = {}
    for part in given.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value or key in own:
            raise SettingsError(
                f"Cannot read {part!r} in the options of the scorer {name!r}.",
                "Write NAME[OPTION=VALUE,OPTION=VALUE]:ARGUMENT.",
            )
        own[key] = BOOLEANS.get(value, value)
    return adopt(SCORERS.open(f"{name}:{argument or ''}", **{**options, **own}), Scorer)

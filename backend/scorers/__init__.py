"""Scorers by name. Adding one: a new file with an `open(argument)` function, and a line in REGISTRY."""

from __future__ import annotations

from ..machine import plugins
from ..registry import Registry
from .protocol import Scorer

REGISTRY = {
    "tinyworld": "..tinyworld.runtime.scorer",
    "judge": ".scorers.judge",
}
SCORERS = Registry("scorer", REGISTRY, __name__.removesuffix(".scorers"), plugins.SCORERS)

__all__ = ["REGISTRY", "SCORERS", "Scorer", "open_scorer"]


def open_scorer(spec: str, **options: object) -> Scorer:
    """Open a scorer, built in or of an installed plug-in.

    Args:
        spec: `NAME` or `NAME:ARGUMENT`, such as `judge:CHAT-SPEC`.
        **options: Options of the backend, such as `device`. None leaves an option at its default.

    Raises:
        SettingsError: There is no such name, it cannot be imported, or an option cannot be used.
    """
    return SCORERS.open(spec, **options)

"""Scorers by name. To add one, write a module with an `open(argument)` function and add it to REGISTRY."""

from __future__ import annotations

from ..machine import plugins
from ..machine.registry import Registry
from .protocol import Scorer

REGISTRY = {
    "tinyworld": "..tinyworld.runtime.scorer",
    "judge": ".scorers.judge",
    "judge-v1": ".scorers.judge:open_version_1",
}
SCORERS = Registry("scorer", REGISTRY, __name__.removesuffix(".scorers"), plugins.SCORERS)

__all__ = ["REGISTRY", "SCORERS", "Scorer", "open_scorer"]


def open_scorer(spec: str, **options: object) -> Scorer:
    """Open a scorer by name, built in or from an installed plug-in.

    Args:
        spec: `NAME` or `NAME:ARGUMENT`, such as `judge:CHAT-SPEC`.
        **options: Options of the backend, such as `device`. None leaves an option at its default.

    Raises:
        SettingsError: The name is unknown, its module cannot be imported, or an option is not supported.
    """
    return SCORERS.open(spec, **options)

"""Scorers by name. Adding one: a new file with an `open(argument)` function, and a line in REGISTRY."""

from __future__ import annotations

from ..registry import open_by_spec
from .protocol import Scorer

REGISTRY = {
    "tinyworld": "..tinyworld.runtime.scorer",
    "judge": ".scorers.judge",
}

__all__ = ["REGISTRY", "Scorer", "open_scorer"]


def open_scorer(spec: str, **options: object) -> Scorer:
    """Open `NAME` or `NAME:ARGUMENT` (such as `judge:CHAT-SPEC`); raises SettingsError."""
    return open_by_spec("scorer", REGISTRY, spec, **options)

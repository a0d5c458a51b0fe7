"""A critic's reasoning as it is shown to people: in the page, the live view, the nodes and the command line.

Records always store the critic's own text. A critic that writes in its own notation has a module here whose
`as_english(text)` returns sentences, and returns any other text unchanged.
"""

from __future__ import annotations

from importlib import import_module

from ..types import Verdict

NOTATIONS = ("...tinyworld.runtime.reasoning",)
"""Modules with `as_english`. They are imported when there is a reasoning to show."""


def reasoning_shown(verdict: Verdict | None) -> str:
    """Return the reasoning of a verdict for display; empty without a verdict."""
    text = verdict.reasoning if verdict else ""
    for name in NOTATIONS if text else ():
        text = import_module(name, __package__).as_english(text)
    return text

"""A critic's reasoning as people are shown it: in page, live view, nodes and command line.

A record always stores the critic's own text. A critic that writes in a notation of its own has a module here
whose `as_english(text)` returns sentences, and any other text unchanged.
"""

from __future__ import annotations

from importlib import import_module

from ..types import Verdict

NOTATIONS = ("...tinyworld.runtime.reasoning",)
"""Modules with `as_english`, imported when there is a reasoning to show."""


def reasoning_shown(verdict: Verdict | None) -> str:
    """The reasoning to read; empty without a verdict."""
    text = verdict.reasoning if verdict else ""
    for name in NOTATIONS if text else ():
        text = import_module(name, __package__).as_english(text)
    return text

"""A critic's reasoning as it is shown to people: in the page, the live view, the nodes and the command line.

Records always store the critic's own text. A critic that writes in its own notation has a module here whose
`as_english(text)` returns sentences, and returns any other text unchanged.
"""

from __future__ import annotations

from importlib import import_module

from ..types import CheckedItem, Verdict

NOTATIONS = ("...tinyworld.runtime.reasoning",)
"""Modules with `as_english`. They are imported when there is a reasoning to show."""
PASSED, FAILED, UNKNOWN = "✓", "✗", "?"


def reasoning_shown(verdict: Verdict | None) -> str:
    """Return the checklist of a verdict and its reasoning for display; empty without a verdict."""
    ticks = [tick_line(item) for item in verdict.items] if verdict else []
    return "\n\n".join(part for part in ("\n".join(ticks), reasoning_alone(verdict)) if part)


def reasoning_alone(verdict: Verdict | None) -> str:
    """Return the reasoning of a verdict for display, without its checklist; empty without a verdict."""
    text = verdict.reasoning if verdict else ""
    for name in NOTATIONS if text else ():
        text = import_module(name, __package__).as_english(text)
    return text


def tick_line(item: CheckedItem) -> str:
    """Return an item with its tick and P(yes): whether it is true, or that the critic cannot judge it."""
    known = "" if item.probability is None else f" (P(yes) {item.probability:.2f})"
    if item.passed is None:
        no_answer = item.unanswered or item.probability is None
        why = "no answer" if no_answer else f"cannot judge {item.kind}"
        return f"{UNKNOWN} {item.text}{known}: {why}"
    return f"{PASSED if item.passed else FAILED} {item.text}{known}"

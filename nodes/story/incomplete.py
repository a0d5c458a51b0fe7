"""What nodes that show or write a story say of one that is not complete: it must not pass for a whole one."""

from __future__ import annotations

from typing import Any

from ...backend.report.outcomes import summarize
from ...backend.types import Trajectory

INCOMPLETE = "interleave_incomplete"
"""Under which a node's display has the line; the browser warns with it (web/incomplete.js)."""


def incomplete_line(trajectory: Trajectory) -> str:
    """Return the sums of a story that is not complete, "" for a complete one."""
    sums = summarize(trajectory)
    return sums.sentence if sums.incomplete_steps else ""


def shown_incomplete(trajectory: Trajectory) -> dict[str, Any]:
    """Return what a node adds to its display for a story that is not complete."""
    line = incomplete_line(trajectory)
    return {INCOMPLETE: (line,)} if line else {}

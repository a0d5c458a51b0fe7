"""Warning of the nodes that show or write a story which is not complete."""

from __future__ import annotations

from typing import Any

from ...backend.report.completeness import only_waits
from ...backend.report.outcomes import summarize
from ...backend.types import Trajectory

INCOMPLETE = "interleave_incomplete"
"""Key of the warning in a node's display; the browser shows it (web/incomplete.js)."""


def incomplete_line(trajectory: Trajectory) -> str:
    """Return the summary of a story that is not complete, "" for a complete one.

    A paused story that waits for the user's decision also has "": the live view says what it waits for.
    """
    sums = summarize(trajectory)
    return sums.sentence if sums.incomplete_steps and not only_waits(trajectory) else ""


def shown_incomplete(trajectory: Trajectory) -> dict[str, Any]:
    """Return the addition to a node's display for a story that is not complete."""
    line = incomplete_line(trajectory)
    return {INCOMPLETE: (line,)} if line else {}

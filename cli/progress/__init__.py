"""Prints the events of a run while it progresses."""

from .sentences import attempt_line, cast_lines, plan_lines, plural, verdict_text, waiting_line, warn
from .views import JsonLines, Lines

__all__ = [
    "JsonLines",
    "Lines",
    "attempt_line",
    "cast_lines",
    "plan_lines",
    "plural",
    "verdict_text",
    "waiting_line",
    "warn",
]

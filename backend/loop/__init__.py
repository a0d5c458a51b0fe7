"""The loop: plan, draw, judge, redraw, as a stream of typed events."""

from .loop import run

__all__ = ["run"]

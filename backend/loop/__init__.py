"""The loop: plan, generate, judge and try again, as a stream of typed events."""

from .loop import run

__all__ = ["run"]

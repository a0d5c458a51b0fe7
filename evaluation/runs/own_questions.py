"""Benchmarks judged by questions of our own; the questions are in `own.py` of each benchmark.

Decision: who has a judge but no checkout of an evaluator can still rank two runs. The questions ask for the
same things in other words, so the figures are never set beside published ones, and say so.
"""

from __future__ import annotations

from importlib import import_module

from ...backend.errors import SettingsError
from ..benchmarks import BY_RESULTS
from ..benchmarks.base.question import OwnQuestions

JUDGED = ("wise", "ueval", "rise", "specv", "comm")
"""Benchmarks that have a module `own.py`."""


def own_questions(name: str) -> OwnQuestions:
    """The questions of the benchmark of this name; raises SettingsError where there are none."""
    if name in BY_RESULTS:
        raise SettingsError(
            f"For {name!r} there are no questions of our own.", "Run its evaluators, then give --results."
        )
    if name not in JUDGED:
        raise SettingsError(f"{name!r} is judged without a judge.", "Leave out --judge.")
    return import_module(f"..benchmarks.{name}.own", __package__).QUESTIONS

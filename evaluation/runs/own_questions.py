"""Finds our own questions of a benchmark, defined in its module `own.py`.

They allow ranking two runs with a judge but without a checkout of the evaluator. They ask for the same
properties in different words, so the figures are marked as not comparable with published ones.
"""

from __future__ import annotations

from importlib import import_module

from ...backend.errors import SettingsError
from ..benchmarks import BY_RESULTS
from ..benchmarks.base.question import OwnQuestions

JUDGED = ("wise", "ueval", "rise", "specv", "comm")
"""Benchmarks that have a module `own.py`."""


def own_questions(name: str) -> OwnQuestions:
    """Return the own questions of the benchmark with this name.

    Raises:
        SettingsError: If it has none.
    """
    if name in BY_RESULTS:
        raise SettingsError(
            f"The benchmark {name!r} has no own questions.", "Run its evaluators, then pass --results."
        )
    if name not in JUDGED:
        raise SettingsError(f"The benchmark {name!r} is scored without a judge.", "Omit --judge.")
    return import_module(f"..benchmarks.{name}.own", __package__).QUESTIONS

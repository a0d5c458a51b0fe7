"""Times relative to the default, such as those of the default without a saving, on the same work.

All arms run in every round, in rotating order, so that other work on the machine affects them alike. The
result is the median over the rounds of the ratio of processor times, with an exact confidence interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from statistics import median
from typing import Any

Measure = Callable[[Any], tuple[Any, Any]]
CONFIDENCE = 0.95


def relative_rows(systems: Sequence[Any], measure: Measure, rounds: int) -> list[dict[str, Any]]:
    """Return a row for every system, with its time relative to the first one.

    Args:
        systems: The default, then others.
        measure: Runs a system; returns its outcome and its cost.
        rounds: Number of times that each system runs.
    """
    seconds: list[list[float]] = [[] for _ in systems]
    counts: list[dict[str, int]] = [{} for _ in systems]
    for number in range(rounds):
        for index in range(len(systems)):
            at = (index + number) % len(systems)
            _, cost = measure(systems[at])
            seconds[at].append(cost.cpu_seconds)
            counts[at] = cost.counts()
    rows = []
    for system, own, counted in zip(systems, seconds, counts, strict=True):
        ratios = [after / before for before, after in zip(seconds[0], own, strict=True)]
        row = {"way": system.name, "counts": counted, "cpu_seconds": round(median(own), 3)}
        rows.append(row | {"ratio": round(median(ratios), 3), "interval": median_interval(ratios)})
    return rows


def median_interval(values: Sequence[float]) -> list[float] | None:
    """Return the 95 % confidence interval of the median, from order statistics; None below six values."""
    number, left, within = len(values), 0, 0.0
    while (within := within + 2 * comb(number, left) / 2**number) <= 1 - CONFIDENCE:
        left += 1
    ordered = sorted(values)
    return [round(ordered[left - 1], 3), round(ordered[-left], 3)] if left else None

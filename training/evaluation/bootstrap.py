"""Intervals of means over items that fall into categories, by resampling.

Decision: items are drawn anew within their category, so that a category keeps its weight; the seed is fixed,
so that the same values give the same interval. Two means are of interest: over all items, and over the
categories' means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import BaseModel

RESAMPLES = 10_000
AT_ONCE = 500
"""Resamples made at a time: memory stays small for thousands of items."""
LEVEL = (2.5, 97.5)


class Mean(BaseModel):
    """A mean with its 95 % interval, over `n` items."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}] of {self.n}"


class Means(BaseModel):
    """`items`: every item counts the same; `macro`: every category does."""

    items: Mean
    macro: Mean


def stratified_means(
    values: Mapping[str, Sequence[float]], seed: int = 0, resamples: int = RESAMPLES
) -> Means:
    """Both means of the values by category, with percentile intervals. Raises ValueError without a value."""
    groups = [np.asarray(ones, dtype=np.float64) for _, ones in sorted(values.items()) if len(ones)]
    if not groups:
        raise ValueError("no value")
    sizes = np.array([len(group) for group in groups])
    random = np.random.default_rng(seed)
    drawn = np.empty((resamples, len(groups)))
    for at, group in enumerate(groups):
        for begin in range(0, resamples, AT_ONCE):
            count = min(AT_ONCE, resamples - begin)
            chosen = random.integers(0, len(group), size=(count, len(group)))
            drawn[begin : begin + count, at] = group[chosen].mean(axis=1)
    means = np.array([group.mean() for group in groups])
    weights = sizes / sizes.sum()
    return Means(
        items=_mean(float(means @ weights), drawn @ weights, int(sizes.sum())),
        macro=_mean(float(means.mean()), drawn.mean(axis=1), int(sizes.sum())),
    )


def _mean(mean: float, drawn: np.ndarray, count: int) -> Mean:
    low, high = np.percentile(drawn, LEVEL)
    return Mean(mean=mean, low=float(low), high=float(high), n=count)

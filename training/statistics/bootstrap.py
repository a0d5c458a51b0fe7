"""Intervals of means over items that fall into categories, or come from several seeds, by resampling.

Decisions. Items are drawn anew within their category, so that a category keeps its weight; the seed is fixed,
so that the same values give the same interval. Two means are of interest: over all items, and over the
categories' means. A plain bootstrap of small categories is too narrow. So one item less is drawn than there
are (J. Rao and C. Wu, 1988), which makes the variance right, and the interval is as much wider as Student's t
is than the normal distribution, with the degrees of freedom of F. Satterthwaite (1946). A category of one
item does not show its own spread. Such items get the spread of all of them together, or that of all items if
there is only one (collapsed strata, W. Cochran, 1977). This contains the differences between categories, so
the interval is rather too wide than too narrow. Of a single item the interval is as wide as the bounds. How
often an interval holds the truth is measured by benchmarks/interval_coverage.py. Where every seed had
trainings of its own, the seeds are what was repeated: they are drawn anew too, by the same rules, and
Student's t has one degree of freedom less than there are seeds. The spread between seeds holds that of their
items already, so that both levels together are rather too wide than too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from ...backend.machine.requirements import require
from .intervals import Z

RESAMPLES = 10_000
AT_ONCE = 500
"""Resamples made at a time: memory stays small for thousands of items."""
LEVEL = (2.5, 97.5)
Bounds = tuple[float, float]
"""The least and the greatest value that a mean can have, which a wider interval must not leave."""
OF_DIFFERENCES: Bounds = (-1.0, 1.0)
"""Those of differences of shares; values alone do not say that they are differences where none is below 0."""
UNBOUNDED: Bounds = (-np.inf, np.inf)


class Mean(BaseModel):
    """A mean with its 95 % interval, over `n` items."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

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
    values: Mapping[str, Sequence[float]],
    seed: int = 0,
    resamples: int = RESAMPLES,
    bounds: Bounds | None = None,
) -> Means:
    """Both means of the values by category, with their intervals, which do not leave the `bounds` (None: 0 to
    1 for values that lie there, else none). Raises ValueError without a value, SettingsError where scipy is
    not installed."""
    groups = [np.asarray(ones, dtype=np.float64) for _, ones in sorted(values.items()) if len(ones)]
    if not groups:
        raise ValueError("no value")
    sizes = np.array([len(group) for group in groups])
    single = sizes == 1
    spread = _spread_of_singles(groups)
    random = np.random.default_rng(seed)
    drawn = np.empty((resamples, len(groups)))
    for at, group in enumerate(groups):
        for begin in range(0, resamples, AT_ONCE):
            count = min(AT_ONCE, resamples - begin)
            chosen = random.integers(0, len(group), size=(count, max(1, len(group) - 1)))
            drawn[begin : begin + count, at] = group[chosen].mean(axis=1)
    variance = spread.var() if len(spread) else 0.0
    if variance:
        drawn[:, single] += random.choice(spread, size=(resamples, int(single.sum())))
    means = np.array([group.mean() for group in groups])
    variances = np.array([0.0 if len(group) == 1 else group.var(ddof=1) / len(group) for group in groups])
    both = (sizes / sizes.sum(), np.full(len(groups), 1 / len(groups)))
    bounds = bounds or _bounds(np.concatenate(groups))
    whole = int(sizes.sum())

    def mean_by(weights: np.ndarray) -> Mean:
        mean = float(means @ weights)
        if whole == 1:
            return Mean(mean=mean, low=bounds[0], high=bounds[1], n=1)
        # The spread of single items is one estimate, whatever their number.
        parts = np.append(weights**2 * variances, (weights[single] ** 2).sum() * variance)
        return _mean(mean, drawn @ weights, _wider(parts, np.append(sizes, len(spread))), bounds)

    items, macro = map(mean_by, both)
    return Means(items=items.model_copy(update={"n": whole}), macro=macro.model_copy(update={"n": whole}))


def two_level_mean(
    values: Sequence[Sequence[float]],
    seed: int = 0,
    resamples: int = RESAMPLES,
    bounds: Bounds | None = None,
) -> Mean:
    """The mean of all items (every seed counts the same) with an interval over seeds and items: `values` has
    the items of each seed; `bounds` as in `stratified_means`. With one seed it is that of its items alone.
    Raises ValueError without a value or for a seed without one, SettingsError where scipy is not
    installed."""
    seeds = [np.asarray(ones, dtype=np.float64) for ones in values]
    if not seeds or not all(len(one) for one in seeds):
        raise ValueError("no value")
    if len(seeds) == 1:
        return stratified_means({"": list(values[0])}, seed, resamples, bounds).items
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(seeds), size=(resamples, len(seeds) - 1))
    drawn = np.zeros(resamples)
    for number, items in enumerate(seeds):
        for begin in range(0, resamples, AT_ONCE):
            times = (chosen[begin : begin + AT_ONCE] == number).sum(1)
            # A seed that was drawn twice has other items each time.
            for time in range(1, int(times.max(initial=0)) + 1):
                which = begin + np.flatnonzero(times >= time)
                some = random.integers(0, len(items), size=(len(which), max(1, len(items) - 1)))
                drawn[which] += items[some].mean(axis=1)
    drawn /= len(seeds) - 1
    means = np.array([items.mean() for items in seeds])
    everything = np.concatenate(seeds)
    found = _mean(
        float(means.mean()),
        drawn,
        _wider(np.array([1.0]), np.array([len(seeds)])),
        bounds or _bounds(everything),
    )
    return found.model_copy(update={"n": len(everything)})


def _spread_of_singles(groups: Sequence[np.ndarray]) -> np.ndarray:
    """Deviations with the variance that a category of one item is taken to have; none if there is no such
    category, a single 0 if nothing is known."""
    singles = [group for group in groups if len(group) == 1]
    values = np.concatenate(singles if len(singles) > 1 else groups) if singles else np.zeros(0)
    if len(values) < 2:
        return np.zeros(len(singles))
    return (values - values.mean()) * np.sqrt(len(values) / (len(values) - 1))


def _bounds(values: np.ndarray) -> Bounds:
    return (0.0, 1.0) if values.min() >= 0 and values.max() <= 1 else UNBOUNDED


def _wider(parts: np.ndarray, sizes: np.ndarray) -> float:
    """How much wider Student's t makes an interval whose variance has these parts."""
    known = parts > 0
    if not known.any():
        return 1.0
    require("scipy")
    from scipy.stats import t

    freedom = parts.sum() ** 2 / (parts[known] ** 2 / (sizes[known] - 1)).sum()
    return float(t.ppf(0.975, freedom)) / Z


def _mean(mean: float, drawn: np.ndarray, wider: float, bounds: tuple[float, float]) -> Mean:
    low, high = (mean + wider * (float(end) - mean) for end in np.percentile(drawn, LEVEL))
    return Mean(mean=mean, low=max(low, bounds[0]), high=min(high, bounds[1]), n=0)

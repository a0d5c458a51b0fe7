"""Bootstrap confidence intervals of means over items in categories, or over several seeds.

Items are resampled within their category, so that each category keeps its weight. The random seed is fixed,
so that the same values give the same interval. Two means are computed: over all items, and over the means of
the categories.

A plain bootstrap of small categories is too narrow. Therefore one item fewer than available is drawn (J. Rao
and C. Wu, 1988), which makes the variance unbiased, and the interval is widened by the ratio of Student's t
to the normal distribution, with the degrees of freedom of F. Satterthwaite (1946). A category with one item
does not show its own variance. Such items get the variance of all of them together, or of all items if there
is only one (collapsed strata, W. Cochran, 1977). This includes the differences between categories, so the
interval is rather too wide than too narrow. With a single item the interval is as wide as the bounds.

If every seed had trainings of its own, the seeds are the repetitions. They are resampled too, by the same
rules, and Student's t has one degree of freedom less than there are seeds. The variance between seeds already
includes that of their items, so both levels together are rather too wide than too narrow. The coverage of the
intervals is measured by experiment `interval_coverage` of 0.3.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from ...backend.machine.libraries import require
from .intervals import Z

RESAMPLES = 10_000
AT_ONCE = 500
"""Number of resamples computed at a time, which limits memory for thousands of items."""
LEVEL = (2.5, 97.5)
Bounds = tuple[float, float]
"""Smallest and largest possible value of a mean; a widened interval is clipped to them."""
OF_DIFFERENCES: Bounds = (-1.0, 1.0)
"""Bounds of differences of shares. They must be given, as values do not show that they are differences."""
UNBOUNDED: Bounds = (-np.inf, np.inf)


class Mean(BaseModel):
    """A mean of `n` items with its 95 % confidence interval."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}] of {self.n}"


class Means(BaseModel):
    """Mean over all items (`items`) and mean over the means of the categories (`macro`)."""

    items: Mean
    macro: Mean


def stratified_means(
    values: Mapping[str, Sequence[float]],
    seed: int = 0,
    resamples: int = RESAMPLES,
    bounds: Bounds | None = None,
) -> Means:
    """Compute both means of values in categories, with their confidence intervals.

    Args:
        values: Values by category; the shape of each is `(items,)`.
        seed: Seed of the resampling.
        resamples: Number of resamples.
        bounds: Bounds of the intervals. Default: 0 to 1 if all values are in this range, else none.

    Returns:
        The means.

    Raises:
        ValueError: `values` is empty.
        SettingsError: scipy is not installed.
    """
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
        # The variance of single items is one estimate, regardless of their number.
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
    """Compute the mean of all items, with equal weights of seeds and an interval over seeds and items.

    With one seed the interval is that of its items.

    Args:
        values: Values of the items of each seed; the shape of each is `(items,)`.
        seed: Seed of the resampling.
        resamples: Number of resamples.
        bounds: As in `stratified_means`.

    Returns:
        The mean.

    Raises:
        ValueError: `values` is empty, or a seed has no values.
        SettingsError: scipy is not installed.
    """
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
            # A seed that was drawn twice gets other items each time.
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
    """Return deviations, `(items,)`, with the variance assumed for categories with one item.

    The result is empty if there is no such category, and a single 0 if nothing is known about the variance.
    """
    singles = [group for group in groups if len(group) == 1]
    values = np.concatenate(singles if len(singles) > 1 else groups) if singles else np.zeros(0)
    if len(values) < 2:
        return np.zeros(len(singles))
    return (values - values.mean()) * np.sqrt(len(values) / (len(values) - 1))


def _bounds(values: np.ndarray) -> Bounds:
    return (0.0, 1.0) if values.min() >= 0 and values.max() <= 1 else UNBOUNDED


def _wider(parts: np.ndarray, sizes: np.ndarray) -> float:
    """Return the factor by which Student's t widens an interval whose variance has these parts."""
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

"""Shares and means with their confidence intervals, and tests.

Wilson's interval, the exact binomial test and the test of random signs come from scipy. The intervals of
paired shares and of the difference of two shares are implemented here, since scipy does not have them.

The interval of a mean is Student's, with the variance of a stratified sample: each category keeps its weight,
and the degrees of freedom are those of F. Satterthwaite (1946). Two means are computed: over all items, and
over the means of the categories. A category with one item does not show its own variance. Such items get the
variance of all of them together, or of all items if there is only one (collapsed strata, W. Cochran, 1977).
This includes the differences between categories, so the interval is rather too wide than too narrow. With a
single item the interval is as wide as the bounds.

If every seed had trainings of its own, the seeds are the repetitions. The variance between seeds already
includes that of their items, and that of the items is added once more, so the interval is rather too wide.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from ..backend.core.machine.libraries import require

if TYPE_CHECKING:
    import numpy as np

Z = 1.959963984540054
"""Standard deviations of a 95 % confidence interval."""


class Share(BaseModel):
    """A share of successes in `n` cases with its 95 % Wilson confidence interval."""

    rate: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.rate:.3f} [{self.low:.3f}, {self.high:.3f}] of {self.n}"


def share(outcomes: Sequence[bool]) -> Share:
    """Return the share of True with its 95 % Wilson score interval (E. B. Wilson, 1927).

    An empty sequence gives 0 of 0.

    Raises:
        SettingsError: scipy is not installed.
    """
    n = len(outcomes)
    if n == 0:
        return Share(rate=0.0, low=0.0, high=1.0, n=0)
    found = _binomial_test(sum(outcomes), n)
    interval = found.proportion_ci(confidence_level=0.95, method="wilson")
    return Share(rate=sum(outcomes) / n, low=float(interval.low), high=float(interval.high), n=n)


def sign_test(first: int, second: int) -> float:
    """Return the two-sided exact p-value of a split of discordant pairs (Q. McNemar, 1947).

    It is 1 if there are none.

    Raises:
        SettingsError: scipy is not installed.
    """
    return float(_binomial_test(first, first + second).pvalue) if first + second else 1.0


def sign_flip_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of a sum under random signs (R. A. Fisher, 1935), exact up to 20.

    It is 1 for fewer than two differences. With n differences it is at least 2 / 2^n.

    Raises:
        SettingsError: scipy is not installed.
    """
    if len(differences) < 2:
        return 1.0
    require("scipy")
    from scipy.stats import permutation_test

    found = permutation_test((differences,), sum, permutation_type="samples", n_resamples=2**20)
    return float(found.pvalue)


def _binomial_test(successes: int, cases: int) -> Any:
    require("scipy")
    from scipy.stats import binomtest

    return binomtest(successes, cases)


class Difference(BaseModel):
    """A difference of two shares over the same `n` cases with its 95 % confidence interval.

    `p` is the two-sided p-value of McNemar's exact test.
    """

    difference: float
    low: float
    high: float
    p: float
    n: int

    def __str__(self) -> str:
        return f"{self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}], p {self.p:.2g}, {self.n} pairs"


def paired_difference(ones: Sequence[bool], others: Sequence[bool]) -> Difference:
    """Return the difference between the shares of True in `ones` and `others`, which are paired.

    The confidence interval is Wald's for paired shares, and the test is `sign_test`.

    Raises:
        ValueError: The lengths differ.
        SettingsError: scipy is not installed.
    """
    n = len(ones)
    if n != len(others):
        raise ValueError(f"{n} cases against {len(others)}")
    if n == 0:
        return Difference(difference=0.0, low=-1.0, high=1.0, p=1.0, n=0)
    won = sum(one and not other for one, other in zip(ones, others, strict=True))
    lost = sum(other and not one for one, other in zip(ones, others, strict=True))
    half = Z * (won + lost - (won - lost) ** 2 / n) ** 0.5 / n
    mean = (won - lost) / n
    return Difference(difference=mean, low=mean - half, high=mean + half, p=sign_test(won, lost), n=n)


def agresti_min_interval(ones: Sequence[bool], others: Sequence[bool]) -> Difference:
    """Return `paired_difference` with the confidence interval of A. Agresti and Y. Min (2005).

    It adds half a case to each of the four outcomes. If few cases do not differ, it is wide, while Wald's
    interval is empty.

    Raises:
        ValueError: The lengths differ.
        SettingsError: scipy is not installed.
    """
    plain = paired_difference(ones, others)
    won = sum(one and not other for one, other in zip(ones, others, strict=True)) + 0.5
    lost = sum(other and not one for one, other in zip(ones, others, strict=True)) + 0.5
    n = plain.n + 2
    mean, half = (won - lost) / n, Z * (won + lost - (won - lost) ** 2 / n) ** 0.5 / n
    return plain.model_copy(update={"low": max(-1.0, mean - half), "high": min(1.0, mean + half)})


def cases_for(drop: float) -> int:
    """Return the fewest cases, none of which differs, whose `agresti_min_interval` is above -`drop`."""
    return max(1, ceil(Z / drop - 2 - 1e-9))


def newcombe_interval(one: Share, other: Share) -> tuple[float, float]:
    """Return the 95 % confidence interval of the difference of two independent shares (R. G. Newcombe, 1998).

    It is computed from the Wilson intervals of both shares.
    """
    mean = one.rate - other.rate
    return (
        mean - ((one.rate - one.low) ** 2 + (other.high - other.rate) ** 2) ** 0.5,
        mean + ((one.high - one.rate) ** 2 + (other.rate - other.low) ** 2) ** 0.5,
    )


class Auc(BaseModel):
    """An area under the ROC curve with its 95 % confidence interval, `None` if too little is known.

    It is the probability that a positive case has a higher score than a negative one; a tie counts half.
    `units` is the number of independent units.
    """

    auc: float
    low: float | None = None
    high: float | None = None
    units: int

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.auc:.3f}{interval}"


AUC_RESAMPLES = 2000
LEAST_RESAMPLES = 100
"""Resamples with both outcomes that the interval of an AUC needs."""
LEAST_UNITS = 3


def auc_of(truths: Sequence[bool], scores: Sequence[float], units: Sequence[Hashable]) -> Auc | None:
    """Return the AUC of scores, or None without cases of both outcomes.

    Args:
        truths: Outcome of each case.
        scores: Score of each case.
        units: Unit of each case. Cases of one unit are alike, so units are resampled and not cases.

    Raises:
        SettingsError: scipy is not installed.
    """
    import numpy as np

    require("scipy")
    from scipy.stats import t

    if len(set(truths)) < 2:
        return None
    positive, values = np.array(truths, dtype=bool), np.array(scores, dtype=np.float64)
    numbers = {one: number for number, one in enumerate(dict.fromkeys(units))}
    count, of = len(numbers), np.array([numbers[one] for one in units])
    # Pairs of a positive case of one unit and a negative case of another, and how many are won.
    pairs, won = np.zeros((count, count)), np.zeros((count, count))
    for unit, one in zip(of[positive], values[positive], strict=True):
        wins = (np.sign(one - values[~positive]) + 1) / 2
        pairs[unit] += np.bincount(of[~positive], minlength=count)
        won[unit] += np.bincount(of[~positive], weights=wins, minlength=count)
    value = float(won.sum() / pairs.sum())
    drawn = np.random.default_rng(0).multinomial(
        max(1, count - 1), np.full(count, 1 / count), size=AUC_RESAMPLES
    )
    resamples = ((drawn @ pairs) * drawn).sum(1)
    found = ((drawn @ won) * drawn).sum(1)[resamples > 0]
    if count < LEAST_UNITS or len(found) < LEAST_RESAMPLES:
        return Auc(auc=value, units=count)
    wider = float(t.ppf(0.975, count - 1)) / Z
    ends = np.percentile(found / resamples[resamples > 0], (2.5, 97.5))
    low, high = (value + wider * (float(end) - value) for end in ends)
    if high - low < 1e-9:
        spare = 1 - share([True] * int(min(positive.sum(), (~positive).sum()))).low
        low, high = value - spare, value + spare
    return Auc(auc=value, low=max(low, 0.0), high=min(high, 1.0), units=count)


Bounds = tuple[float, float]
"""Smallest and largest possible value of a mean; a widened interval is clipped to them."""
OF_DIFFERENCES: Bounds = (-1.0, 1.0)
"""Bounds of differences of shares. They must be given, as values do not show that they are differences."""
UNBOUNDED: Bounds = (-inf, inf)


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


def stratified_means(values: Mapping[str, Sequence[float]], bounds: Bounds | None = None) -> Means:
    """Compute both means of values in categories, with their confidence intervals.

    Args:
        values: Values by category; the shape of each is `(items,)`.
        bounds: Bounds of the intervals. Default: 0 to 1 if all values are in this range, else none.

    Raises:
        ValueError: `values` is empty.
        SettingsError: scipy is not installed.
    """
    import numpy as np

    groups = [np.asarray(ones, dtype=np.float64) for _, ones in sorted(values.items()) if len(ones)]
    if not groups:
        raise ValueError("no value")
    sizes = np.array([len(group) for group in groups])
    single, whole, everything = sizes == 1, int(sizes.sum()), np.concatenate(groups)
    # The variance of single items is one estimate, regardless of their number.
    like_singles = everything[:0]
    if single.any():
        like_singles = np.concatenate([group for group in groups if len(group) == 1])
        like_singles = like_singles if len(like_singles) > 1 else everything
    of_singles = like_singles.var(ddof=1) if len(like_singles) > 1 else 0.0
    means = np.array([group.mean() for group in groups])
    variances = np.array([0.0 if len(group) == 1 else group.var(ddof=1) / len(group) for group in groups])

    def mean_by(weights: np.ndarray) -> Mean:
        parts = np.append(weights**2 * variances, (weights[single] ** 2).sum() * of_singles)
        return _mean(float(means @ weights), parts, np.append(sizes, len(like_singles)), everything, bounds)

    return Means(items=mean_by(sizes / whole), macro=mean_by(np.full(len(groups), 1 / len(groups))))


def two_level_mean(values: Sequence[Sequence[float]], bounds: Bounds | None = None) -> Mean:
    """Compute the mean of all items, with equal weights of seeds and an interval over seeds and items.

    With one seed the interval is that of its items.

    Args:
        values: Values of the items of each seed; the shape of each is `(items,)`.
        bounds: As in `stratified_means`.

    Raises:
        ValueError: `values` is empty, or a seed has no values.
        SettingsError: scipy is not installed.
    """
    import numpy as np

    seeds = [np.asarray(ones, dtype=np.float64) for ones in values]
    if not seeds or not all(len(one) for one in seeds):
        raise ValueError("no value")
    if len(seeds) == 1:
        return stratified_means({"": list(values[0])}, bounds).items
    means = np.array([items.mean() for items in seeds])
    within = np.mean([items.var() / max(1, len(items) - 1) for items in seeds])
    variance = (means.var() + within) / (len(seeds) - 1)
    sizes = np.array([len(seeds)])
    return _mean(float(means.mean()), np.array([variance]), sizes, np.concatenate(seeds), bounds)


def _mean(
    mean: float, parts: np.ndarray, sizes: np.ndarray, items: np.ndarray, bounds: Bounds | None
) -> Mean:
    """Return a mean whose variance has these parts, each estimated from `sizes` values."""
    if bounds is None:
        bounds = (0.0, 1.0) if items.min() >= 0 and items.max() <= 1 else UNBOUNDED
    if len(items) == 1:
        return Mean(mean=mean, low=bounds[0], high=bounds[1], n=1)
    known = parts > 0
    # Equal values do not show their variance: the interval is then Wilson's of as many equal outcomes.
    half = 0.0 if bounds == UNBOUNDED else Z**2 / (len(items) + Z**2)
    if known.any():
        require("scipy")
        from scipy.stats import t

        freedom = parts.sum() ** 2 / (parts[known] ** 2 / (sizes[known] - 1)).sum()
        half = float(t.ppf(0.975, freedom) * parts.sum() ** 0.5)
    return Mean(mean=mean, low=max(mean - half, bounds[0]), high=min(mean + half, bounds[1]), n=len(items))

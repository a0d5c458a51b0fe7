"""Agreement of scores with verdicts: AUC, accuracy, correlations and pairs, with bootstrap intervals.

Images of one run are alike, so runs are resampled and not images (steps, if there are fewer than `FEW_RUNS`
runs). One unit fewer than available is drawn and the interval is widened by Student's t, as in
`training/statistics/bootstrap.py`. The interval of a figure that no resample changes is Wilson's for the
rarer verdict. All figures of one row are computed at once for all resamples: a resample is a row of weights.
The coverage of the intervals is measured by experiment `scorers` of 0.3.0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from pydantic import BaseModel

from ...backend.machine.requirements import require
from ...training.statistics.intervals import Z, share

FEW_RUNS = 10
FOLDS = 5
RESAMPLES = 2000
LEAST_RESAMPLES = 100
"""Resamples with both verdicts that an interval needs."""
LEAST_UNITS = 3
SHARE, BOTH_SIGNS = (0.0, 1.0), (-1.0, 1.0)
"""Bounds of figures."""


class Figure(BaseModel):
    """A figure with its 95 % confidence interval; None if it cannot be computed."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Agreement(BaseModel):
    """Agreement of one scorer with people.

    Attributes:
        scorer: Name of the scorer as given.
        images: Images with a score.
        unscored: Images without one.
        accepted: Images that people accepted, among those with a score.
        units: What is resampled: runs or steps, and their number.
        auc: Probability that an accepted image has a higher score than a rejected one; a tie counts half.
        accuracy: Share of correct verdicts with a threshold chosen on other images (cross-validation).
        always: Accuracy of always giving the more frequent verdict, the baseline of `accuracy`.
        threshold: Overall score from which an image counts as accepted, chosen on all images.
        spearman: Rank correlation of score and verdict.
        kendall: Kendall's tau-b of score and verdict.
        pairs: Pairs of an accepted and a rejected image of the same step.
        pair_accuracy: Share of these pairs in which the accepted image has the higher score.
        auc_semantics: AUC of semantics alone.
        auc_quality: AUC of quality alone.
        difference: AUC minus that of the first scorer, over the images that both scored.
        failure: The first reason why an image has no score.
    """

    scorer: str
    images: int = 0
    unscored: int = 0
    accepted: int = 0
    units: str = ""
    auc: Figure = Figure()
    accuracy: Figure = Figure()
    always: float = 0.0
    threshold: float = 0.0
    spearman: Figure = Figure()
    kendall: Figure = Figure()
    pairs: int = 0
    pair_accuracy: Figure = Figure()
    auc_semantics: float | None = None
    auc_quality: float | None = None
    difference: Figure | None = None
    failure: str = ""


class Observed:
    """Verdicts on images, and the units that are resampled.

    Args:
        verdicts: Verdicts of people, `(images,)`.
        runs: Run of each image.
        groups: Group of each image; images of a group can be compared.
        seed: Seed of the resampling.

    Attributes:
        weights: How often each image is in each resample, `(1 + resamples, images)`. The first row is 1.
    """

    def __init__(
        self, verdicts: Sequence[bool], runs: Sequence[Hashable], groups: Sequence[Hashable], seed: int = 0
    ) -> None:
        require("scipy")
        self.verdicts = np.asarray(verdicts, dtype=bool)
        self.groups = _numbered(groups)
        by_run = len(set(runs)) >= FEW_RUNS
        self.units = _numbered(runs if by_run else groups)
        self.count = int(self.units.max(initial=-1)) + 1
        self.described = f"{self.count} {'runs' if by_run else 'steps'}"
        random = np.random.default_rng(seed)
        drawn = random.multinomial(
            max(1, self.count - 1), np.full(self.count, 1 / self.count), size=RESAMPLES
        )
        self.unit_weights = np.vstack([np.ones(self.count), drawn])
        self.weights = self.unit_weights[:, self.units]

    def figure(self, values: np.ndarray, bounds: tuple[float, float] = SHARE) -> Figure:
        """Return a figure with its interval.

        Args:
            values: The figure over all images and over each resample, `(1 + resamples,)`; NaN where it is
                not defined.
            bounds: Smallest and largest possible value.
        """
        value, found = float(values[0]), values[1:][~np.isnan(values[1:])]
        if np.isnan(value):
            return Figure()
        if self.count < LEAST_UNITS or len(found) < LEAST_RESAMPLES:
            return Figure(value=value)
        from scipy.stats import t

        wider = float(t.ppf(0.975, self.count - 1)) / Z
        low, high = (value + wider * (float(end) - value) for end in np.percentile(found, (2.5, 97.5)))
        if high - low < 1e-9:
            rarer = int(min(self.verdicts.sum(), (~self.verdicts).sum()))
            spare = (1 - share([True] * rarer).low) * (bounds[1] - bounds[0])
            low, high = value - spare, value + spare
        return Figure(value=value, low=max(low, bounds[0]), high=min(high, bounds[1]))


def _numbered(names: Sequence[Hashable]) -> np.ndarray:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=int)


class RankFigures:
    """AUC, Spearman's and Kendall's correlation of scores with verdicts, for all resamples at once.

    With verdicts of two values, all three follow from the numbers of accepted and rejected images at each
    level of the score. The attributes have the shape `(1 + resamples,)`, NaN where not defined.

    Args:
        observed: The verdicts.
        scores: The scores, `(images,)`.
    """

    def __init__(self, observed: Observed, scores: np.ndarray) -> None:
        levels, level = np.unique(scores, return_inverse=True)
        order = np.argsort(level, kind="stable")
        starts = np.searchsorted(level[order], np.arange(len(levels)))
        accepted, rejected = (
            np.add.reduceat(observed.weights[:, order] * chosen[order], starts, axis=1)
            for chosen in (observed.verdicts, ~observed.verdicts)
        )
        both = accepted + rejected
        right, wrong, total = (one.sum(1) for one in (accepted, rejected, both))
        below = np.cumsum(rejected, 1) - rejected
        ranks = np.cumsum(both, 1) - both + (both + 1) / 2
        centered = ranks - (total[:, None] + 1) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            self.auc = (accepted * (below + rejected / 2)).sum(1) / (right * wrong)
            spread = np.sqrt((both * centered**2).sum(1) * right * wrong / total)
            self.spearman = (accepted * centered).sum(1) / spread
            untied = (total * (total - 1) - (both * (both - 1)).sum(1)) / 2
            self.kendall = (2 * self.auc - 1) * right * wrong / np.sqrt(right * wrong * untied)
        for values in (self.auc, self.spearman, self.kendall):
            values[~np.isfinite(values)] = np.nan


def best_threshold(verdicts: np.ndarray, scores: np.ndarray) -> float:
    """Return the threshold with the most correct verdicts; of equally good ones the middle one.

    An image is accepted from this score on.
    """
    levels, level = np.unique(scores, return_inverse=True)
    accepted, rejected = (np.bincount(level, weights=one) for one in (verdicts, ~verdicts))
    # Correct verdicts if all images from this level on are accepted; the last one accepts none.
    right = np.append(accepted[::-1].cumsum()[::-1], 0) + np.append(0, rejected.cumsum())
    cuts = np.concatenate([[levels[0]], (levels[1:] + levels[:-1]) / 2, [levels[-1] + 1e-6]])
    best = np.flatnonzero(right == right.max())
    return float(cuts[best[len(best) // 2]])


def held_out_verdicts(observed: Observed, scores: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return for each image whether a threshold that was chosen on other units judges it correctly."""
    order = np.random.default_rng(seed).permutation(observed.count)
    folds = order.argsort()[observed.units] % FOLDS
    right = np.zeros(len(scores), dtype=bool)
    for fold in range(FOLDS):
        held, rest = folds == fold, folds != fold
        if held.any() and rest.any():
            cut = best_threshold(observed.verdicts[rest], scores[rest])
            right[held] = (scores[held] >= cut) == observed.verdicts[held]
    return right


def mean_of(observed: Observed, values: np.ndarray) -> np.ndarray:
    """Return the mean of values of images, `(images,)`, over each resample, `(1 + resamples,)`."""
    return observed.weights @ values / observed.weights.sum(1)


def pair_accuracy(observed: Observed, scores: np.ndarray) -> tuple[int, np.ndarray]:
    """Compare the accepted and the rejected images of each group.

    Returns:
        The number of pairs; and the share in which the accepted image has the higher score (equal ones count
        half), over each resample, `(1 + resamples,)`.
    """
    won, pairs = np.zeros(observed.count), np.zeros(observed.count)
    for group in range(int(observed.groups.max(initial=-1)) + 1):
        members = np.flatnonzero(observed.groups == group)
        accepted, rejected = (
            scores[members[observed.verdicts[members] == verdict]] for verdict in (True, False)
        )
        unit = observed.units[members[0]]
        won[unit] += (0.5 * (np.sign(accepted[:, None] - rejected[None]) + 1)).sum()
        pairs[unit] += len(accepted) * len(rejected)
    total = observed.unit_weights @ pairs
    with np.errstate(invalid="ignore"):
        return int(pairs.sum()), np.where(total > 0, (observed.unit_weights @ won) / total, np.nan)

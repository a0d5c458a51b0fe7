"""Shares with their intervals, for every figure that is reported.

Decision: what scipy has (Wilson's interval, the exact binomial test) is scipy's. The intervals of paired
shares and of the difference of two shares are written here: scipy has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from pydantic import BaseModel

from ...backend.machine.requirements import require

Z = 1.959963984540054
"""Standard deviations of a 95 % interval."""
MAX_FLIPPED = 20
"""Differences of `sign_flip_test`: a million combinations of signs."""


class Share(BaseModel):
    """A share of successes with its 95 % Wilson interval, over `n` cases."""

    rate: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.rate:.3f} [{self.low:.3f}, {self.high:.3f}] of {self.n}"


def share(outcomes: Sequence[bool]) -> Share:
    """The share of True with the Wilson score interval (E. B. Wilson, 1927) at 95 %; an empty sequence is 0
    of 0. Raises SettingsError where scipy is not installed."""
    n = len(outcomes)
    if n == 0:
        return Share(rate=0.0, low=0.0, high=1.0, n=0)
    found = _binomial_test(sum(outcomes), n)
    interval = found.proportion_ci(confidence_level=0.95, method="wilson")
    return Share(rate=sum(outcomes) / n, low=float(interval.low), high=float(interval.high), n=n)


def sign_test(first: int, second: int) -> float:
    """Two-sided exact probability that cases which came out differently are split so unevenly by chance (Q.
    McNemar, 1947); 1 where there is none. Raises SettingsError where scipy is not installed."""
    return float(_binomial_test(first, first + second).pvalue) if first + second else 1.0


def sign_flip_test(differences: Sequence[float]) -> float:
    """Two-sided exact probability that a sum so far from 0 comes of these differences by chance, if each
    could as well have had the other sign (R. A. Fisher, 1935); 1 where there is none. With n of them it is
    never below 2 / 2^n. Raises ValueError for more than 20."""
    if len(differences) > MAX_FLIPPED:
        raise ValueError(f"{len(differences)} differences have too many signs")
    sums = [0.0]
    for one in differences:
        sums = [total + sign * one for total in sums for sign in (1, -1)]
    limit = abs(sum(differences)) - 1e-12
    return sum(abs(total) >= limit for total in sums) / len(sums)


def _binomial_test(successes: int, cases: int) -> Any:
    require("scipy")
    from scipy.stats import binomtest

    return binomtest(successes, cases)


class Difference(BaseModel):
    """A difference of two shares over the same `n` cases, with its 95 % interval; `p` is McNemar's exact
    test, two-sided."""

    difference: float
    low: float
    high: float
    p: float
    n: int

    def __str__(self) -> str:
        return f"{self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}], p {self.p:.2g}, {self.n} pairs"


def paired_difference(ones: Sequence[bool], others: Sequence[bool]) -> Difference:
    """How much more often `ones` came out right than `others`, case by case; raises ValueError for other
    lengths.

    The interval is Wald's for paired shares, the test is `sign_test`'s.
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
    """`paired_difference` with the interval of A. Agresti and Y. Min (2005), which adds half a case to each
    of the four outcomes: few cases without a difference have a wide interval, where Wald's has none. Raises
    ValueError for other lengths."""
    plain = paired_difference(ones, others)
    won = sum(one and not other for one, other in zip(ones, others, strict=True)) + 0.5
    lost = sum(other and not one for one, other in zip(ones, others, strict=True)) + 0.5
    n = plain.n + 2
    mean, half = (won - lost) / n, Z * (won + lost - (won - lost) ** 2 / n) ** 0.5 / n
    return plain.model_copy(update={"low": max(-1.0, mean - half), "high": min(1.0, mean + half)})


def cases_for(drop: float) -> int:
    """The fewest cases whose `agresti_min_interval`, where none differs, does not reach below -`drop`."""
    return max(1, ceil(Z / drop - 2 - 1e-9))


def newcombe_interval(one: Share, other: Share) -> tuple[float, float]:
    """The 95 % interval of `one`'s rate less `other`'s, of other cases (R. G. Newcombe's of 1998, from the
    two Wilson ones)."""
    mean = one.rate - other.rate
    return (
        mean - ((one.rate - one.low) ** 2 + (other.high - other.rate) ** 2) ** 0.5,
        mean + ((one.high - one.rate) ** 2 + (other.rate - other.low) ** 2) ** 0.5,
    )

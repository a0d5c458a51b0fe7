"""Shares with their confidence intervals.

Wilson's interval and the exact binomial test come from scipy. The intervals of paired shares and of the
difference of two shares are implemented here, since scipy does not have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from pydantic import BaseModel

from ...backend.machine.libraries import require

Z = 1.959963984540054
"""Standard deviations of a 95 % confidence interval."""
MAX_FLIPPED = 20
"""Maximum number of differences in `sign_flip_test`: a million combinations of signs."""


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
    """Return the two-sided exact p-value of a sum under random signs (R. A. Fisher, 1935).

    It is 1 without differences. With n differences it is at least 2 / 2^n.

    Raises:
        ValueError: There are more than 20 differences.
    """
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

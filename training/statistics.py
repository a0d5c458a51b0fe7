"""Shares with honest intervals, for every figure that is reported."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel


class Share(BaseModel):
    """A share of successes with its 95 % Wilson interval, over `n` cases."""

    rate: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.rate:.3f} [{self.low:.3f}, {self.high:.3f}] of {self.n}"


def share(outcomes: Sequence[bool]) -> Share:
    """The share of True with the Wilson score interval (E. B. Wilson, 1927) at 95 %; an empty sequence is 0 of 0."""
    n = len(outcomes)
    if n == 0:
        return Share(rate=0.0, low=0.0, high=1.0, n=0)
    z = 1.959964
    rate = sum(outcomes) / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * ((rate * (1 - rate) + z * z / (4 * n)) / n) ** 0.5 / (1 + z * z / n)
    return Share(rate=rate, low=max(0.0, centre - half), high=min(1.0, centre + half), n=n)

"""Intervals and tests match the published formulas to 1e-9."""

from __future__ import annotations

from math import comb

import pytest

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.training.statistics import (
    Z,
    auc_of,
    paired_difference,
    share,
    sign_flip_test,
    sign_test,
)


def wilson(successes: int, n: int) -> tuple[float, float]:
    """E. B. Wilson's score interval (1927), from his formula."""
    rate = successes / n
    centre = (rate + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z * ((rate * (1 - rate) + Z * Z / (4 * n)) / n) ** 0.5 / (1 + Z * Z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def mcnemar(first: int, second: int) -> float:
    """The exact two-sided p-value of Q. McNemar's test (1947)."""
    n, least = first + second, min(first, second)
    return min(1.0, 2 * sum(comb(n, k) for k in range(least + 1)) / 2**n)


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (7, 7), (3, 10), (81, 263), (899, 900)])
def test_shares_have_wilsons_interval(successes: int, n: int) -> None:
    pytest.importorskip("scipy")
    found = share([True] * successes + [False] * (n - successes))
    assert (found.rate, found.n) == (successes / n, n)
    assert (found.low, found.high) == pytest.approx(wilson(successes, n), abs=1e-9)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (3, 3), (40, 61)])
def test_changed_cases_have_mcnemars_probability(first: int, second: int) -> None:
    pytest.importorskip("scipy")
    assert sign_test(first, second) == pytest.approx(mcnemar(first, second), abs=1e-9)
    outcomes = [True] * first + [False] * second + [True] * 5
    others = [False] * first + [True] * second + [True] * 5
    assert paired_difference(outcomes, others).p == pytest.approx(mcnemar(first, second), abs=1e-9)


def test_an_empty_sample_has_no_interval() -> None:
    nothing = share([])
    assert (nothing.rate, nothing.low, nothing.high, nothing.n) == (0.0, 0.0, 1.0, 0)
    assert sign_test(0, 0) == 1.0


def test_a_missing_scipy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleave_thinker.backend.core.machine.libraries.missing", list)
    with pytest.raises(SettingsError, match=r"This requires scipy, not installed here.*training"):
        share([True])


def test_signs_that_could_be_others_have_their_exact_probability() -> None:
    assert sign_flip_test([0.1, 0.2, 0.1, 0.3, 0.05]) == pytest.approx(2 / 32), "five of one sign"
    assert sign_flip_test([-0.1, -0.2, -0.1, -0.3, -0.05]) == pytest.approx(2 / 32)
    # Sums of at least 0.25: +++ and +-+ with the large ones, and the same with the other sign.
    assert sign_flip_test([0.3, -0.05, 0.1]) == pytest.approx(4 / 8)
    assert sign_flip_test([0.2, -0.2]) == 1.0 == sign_flip_test([]) == sign_flip_test([0.2])


def test_the_auc_is_the_share_of_won_pairs_and_its_interval_knows_units() -> None:
    pytest.importorskip("scipy")
    # 3 positive and 2 negative cases: pairs 9>8, 9>2, 8=8, 8>2, 1<8, 1<2.
    one = auc_of([True, True, False, False, True], [9, 8, 8, 2, 1], ["a"] * 5)
    assert one is not None and one.auc == pytest.approx(3.5 / 6)
    assert one.low is None, "one unit has no interval"
    assert auc_of([True, True], [1, 2], "ab") is None
    truths = [number % 3 == 0 for number in range(60)]
    perfect = auc_of(truths, [float(truth) for truth in truths], range(60))
    assert perfect is not None and perfect.auc == perfect.high == 1
    assert 0.8 < (perfect.low or 0) < 1, "20 positive cases do not prove that it is always right"
    noise = [float(number % 7) for number in range(60)]
    alone, paired = auc_of(truths, noise, range(60)), auc_of(truths * 2, noise * 2, [*range(60)] * 2)
    assert alone and paired and alone.low is not None and alone.low < 0.5 < (alone.high or 0)
    assert paired.low == pytest.approx(alone.low, abs=0.02), "repeated cases of a unit add nothing"

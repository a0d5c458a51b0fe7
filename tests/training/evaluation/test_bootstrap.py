"""Means over categories with their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from interleave_thinker.training.evaluation.bootstrap import stratified_means


def test_both_means_and_an_interval_that_is_always_the_same() -> None:
    values = {"many": [1.0] * 30 + [0.0] * 10, "few": [0.0, 0.5, 1.0, 0.0]}
    found = stratified_means(values, seed=1)
    assert found.items.mean == pytest.approx((30 + 1.5) / 44) and found.items.n == 44
    assert found.macro.mean == pytest.approx((0.75 + 0.375) / 2)
    assert found.items.low < found.items.mean < found.items.high
    # The few items weigh half of the second mean: it is known less well.
    assert found.macro.high - found.macro.low > found.items.high - found.items.low
    assert stratified_means(values, seed=1) == found
    with pytest.raises(ValueError):
        stratified_means({})


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    covered = 0
    for one in range(300):
        values = {"a": random.beta(2, 1, 60).tolist(), "b": random.beta(1, 2, 30).tolist()}
        found = stratified_means(values, seed=one, resamples=600).items
        covered += found.low <= (60 * 2 / 3 + 30 / 3) / 90 <= found.high
    assert 0.91 <= covered / 300 <= 0.98


def test_intervals_of_small_categories_are_as_wide_as_they_must_be() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for one in range(300):
        values = {str(at): random.normal(0.5, 0.1, 4).tolist() for at in range(3)}
        found = stratified_means(values, seed=one, resamples=600).macro
        covered += found.low <= 0.5 <= found.high
    assert 0.92 <= covered / 300 <= 0.98


def test_an_interval_stays_where_a_mean_can_be() -> None:
    found = stratified_means({"a": [1.0, 1.0, 0.0], "b": [1.0]}).items
    assert 0.0 <= found.low < found.mean < found.high <= 1.0
    assert stratified_means({"a": [1.0], "b": [0.5]}).items.low == 0.75
    assert stratified_means({"a": [-1.0, 1.0]}).items.low == -1.0

"""Means over categories with their confidence intervals."""

from __future__ import annotations

import numpy as np
import pytest

from interleave_thinker.training.statistics import (
    OF_DIFFERENCES,
    UNBOUNDED,
    Mean,
    share,
    stratified_means,
    two_level_mean,
)


def test_both_means_have_intervals() -> None:
    values = {"many": [1.0] * 30 + [0.0] * 10, "few": [0.0, 0.5, 1.0, 0.0]}
    found = stratified_means(values)
    assert found.items.mean == pytest.approx((30 + 1.5) / 44) and found.items.n == 44
    assert found.macro.mean == pytest.approx((0.75 + 0.375) / 2)
    assert found.items.low < found.items.mean < found.items.high
    # The few items weigh half of the second mean: it is known less well.
    assert found.macro.high - found.macro.low > found.items.high - found.items.low
    with pytest.raises(ValueError):
        stratified_means({})


def test_categories_of_one_item_have_an_interval() -> None:
    """A category with one item does not show its variance."""
    random = np.random.default_rng(2)
    covered = 0
    for _ in range(150):
        values = {str(at): [random.normal(0.5, 0.1)] for at in range(6)} | {
            "many": random.normal(0.5, 0.1, 4)
        }
        found = stratified_means(values)
        assert found.items.low < found.items.high and found.macro.low < found.macro.high
        covered += found.macro.low <= 0.5 <= found.macro.high
    assert 0.92 <= covered / 150 <= 0.99
    singles = stratified_means({"a": [1.0], "b": [0.0], "c": [1.0]})
    assert singles.items == singles.macro and singles.items.low < 0.2 and singles.items.high == 1.0
    lone = stratified_means({"a": [0.2, 0.4, 0.6, 0.1], "b": [0.9]}, bounds=UNBOUNDED).macro
    inside = stratified_means({"a": [0.2, 0.4, 0.6, 0.1]}, bounds=UNBOUNDED).macro
    assert lone.high - lone.low > inside.high - inside.low


def test_one_item_has_the_widest_interval() -> None:
    assert stratified_means({"a": [0.4]}).macro == Mean(mean=0.4, low=0.0, high=1.0, n=1)
    found = stratified_means({"a": [7.0]}).items
    assert (found.low, found.high) == (-np.inf, np.inf) and str(found) == "7.000 [-inf, inf] of 1"
    assert Mean.model_validate_json(found.model_dump_json()) == found


def test_an_interval_stays_within_the_possible_means() -> None:
    found = stratified_means({"a": [1.0, 1.0, 0.0], "b": [1.0]}).items
    assert 0.0 <= found.low < found.mean < found.high <= 1.0
    assert stratified_means({"a": [-1.0, 1.0]}, bounds=OF_DIFFERENCES).items.low == -1.0
    same = two_level_mean([[0.0] * 20] * 3)
    assert (same.low, same.high) == (0.0, pytest.approx(1 - share([True] * 60).low)), "not empty"
    won = {"a": [1.0, 0.0, 1.0, 0.0]}
    assert stratified_means(won).items.low == 0.0
    assert stratified_means(won, bounds=OF_DIFFERENCES).items.low < 0.0, (
        "without a loss, 0 is still not a lower bound of differences"
    )


def test_an_interval_over_seeds_and_items_is_that_of_its_formula() -> None:
    """Student's t with 14 degrees of freedom is 2.145."""
    pytest.importorskip("scipy")
    random = np.random.default_rng(3)
    values = [random.normal(0.5 + shift, 0.2, 80) for shift in random.normal(0, 0.06, 15)]
    means = np.array([one.mean() for one in values])
    a_draw = means.var() + np.mean([one.var() / 79 for one in values])
    found = two_level_mean([one.tolist() for one in values])
    assert found.mean == pytest.approx(means.mean()) and found.n == 15 * 80
    half = 2.145 * (a_draw / 14) ** 0.5
    assert found.high - found.mean == pytest.approx(half, rel=1e-3)
    assert found.mean - found.low == pytest.approx(half, rel=1e-3)


def test_one_seed_has_the_interval_of_its_items_and_no_item_is_an_error() -> None:
    items = [1.0, 0.0, 1.0, 1.0] * 10
    assert two_level_mean([items]) == stratified_means({"": items}).items
    for nothing in ([], [[]], [[1.0], []]):
        with pytest.raises(ValueError, match="no value"):
            two_level_mean(nothing)

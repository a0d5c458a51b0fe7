"""Measures how often the intervals of benchmark figures contain the true mean, on simulated items.

    OMP_NUM_THREADS=1 python -m benchmarks.interval_coverage --samples 1000        # the last line is JSON

Items are sampled like those of benchmarks (yes or no, shares of few rubrics, points, in strata of unequal
size and difficulty). The true mean is that of the distributions, and all methods get the same samples. A 95 %
interval should contain it in 93 to 97 of 100 samples. A stratified bootstrap of small strata is known to be
too narrow, so small ones are among the cases.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import numpy as np

from interleave_thinker.training.statistics.bootstrap import stratified_means
from interleave_thinker.training.statistics.intervals import share

Draw = Callable[[np.random.Generator, int], np.ndarray]
RESAMPLES = 2000
"""Fewer than the 10,000 of a table; the width hardly depends on it."""


def yes_no(rate: float) -> Draw:
    """Return a sampler of yes-or-no items."""
    return lambda rng, n: (rng.random(n) < rate).astype(float)


def rubrics(rate: float, spread: float = 4.0, each: int = 10) -> Draw:
    """Return a sampler of the share of `each` rubrics met, for items of unequal difficulty."""
    return lambda rng, n: rng.binomial(each, rng.beta(rate * spread, (1 - rate) * spread, n)) / each


def skewed(rate: float) -> Draw:
    """Return a sampler in which most items have nothing and few have everything, as in a hard benchmark."""
    return rubrics(rate, spread=0.5)


CASES: dict[str, list[tuple[int, Draw, float]]] = {
    "wise, 400 and five of 120": [(400, yes_no(0.7), 0.7)] + [(120, yes_no(0.55), 0.55)] * 5,
    "rise, four of 90, 10 % right": [(90, yes_no(0.1), 0.1)] * 4,
    "ueval, eight of 125": [(125, rubrics(0.5 + 0.05 * at), 0.5 + 0.05 * at) for at in range(8)],
    "specv, four of 50": [(50, rubrics(0.6 + 0.1 * at), 0.6 + 0.1 * at) for at in range(4)],
    "tiny world, six of 7": [(7, yes_no(0.9 - 0.1 * at), 0.9 - 0.1 * at) for at in range(6)],
    "eight of 5": [(5, rubrics(0.7), 0.7)] * 8,
    "four of 10, skewed": [(10, skewed(0.2), 0.2)] * 4,
    "one of 20": [(20, rubrics(0.6), 0.6)],
}


def coverage(strata: list[tuple[int, Draw, float]], samples: int, seed: int) -> dict[str, float]:
    """Return the coverage over items, categories and of Wilson's interval, and the first's mean width."""
    rng = np.random.default_rng(seed)
    sizes = np.array([n for n, _, _ in strata])
    rates = np.array([rate for _, _, rate in strata])
    true_items, true_macro = float(rates @ sizes / sizes.sum()), float(rates.mean())
    held = {"items": 0, "macro": 0, "wilson": 0}
    width = 0.0
    for sample in range(samples):
        values = {str(at): draw(rng, n).tolist() for at, (n, draw, _) in enumerate(strata)}
        found = stratified_means(values, seed=sample, resamples=RESAMPLES)
        held["items"] += found.items.low <= true_items <= found.items.high
        held["macro"] += found.macro.low <= true_macro <= found.macro.high
        width += found.items.high - found.items.low
        ones = [one for group in values.values() for one in group]
        if set(ones) <= {0.0, 1.0}:
            wilson = share([one == 1.0 for one in ones])
            held["wilson"] += wilson.low <= true_items <= wilson.high
    shares = {name: round(count / samples, 3) for name, count in held.items()}
    return {**shares, "width": round(width / samples, 3)}


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1000)
    given = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for name, strata in CASES.items():
        found[name] = coverage(strata, given.samples, 7)
        print(f"{name:32}", found[name], flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

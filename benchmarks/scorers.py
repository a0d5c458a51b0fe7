"""Measures what combinations of scorers buy, and the coverage of the intervals of `evaluate scorer`.

    OMP_NUM_THREADS=1 python -m benchmarks.scorers combine RUNS --make 75
    OMP_NUM_THREADS=1 python -m benchmarks.scorers coverage

combine: RUNS is a folder of tiny-world runs that the exact scorer annotated; --make makes them. A judge is
the exact scorer's semantics with normal noise of 4 points, cut off at 0 and 10; "blind" is a judge that only
guesses. Part of the noise is common to all judges, as for samples of one model that is wrong about an image.
No real judge is measured. Expected before the first run: the mean of four judges raises the AUC by 0.05 to
0.1 if their noise is independent, by less than 0.03 if half of its variance is common, and the minimum of two
is worse than their mean.

coverage: simulated images of runs with a common error. Share of 95 % intervals of the AUC that contain the
true AUC; expected: 0.92 to 0.97 from 12 runs on, less below. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from interleave_thinker.backend.errors import ScorerError
from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.types import Score
from interleave_thinker.evaluation.agreement.annotated import AnnotatedImage, Scored, annotated_images
from interleave_thinker.evaluation.agreement.report import as_lines, critic_scores, measure
from interleave_thinker.evaluation.agreement.statistics import Observed, RankFigures
from interleave_thinker.tinyworld.lab.own_critic.annotations import AnnotatedRuns, annotated_runs
from interleave_thinker.tinyworld.runtime.generator import TinyWorldGenerator
from interleave_thinker.tinyworld.runtime.scorer import TinyWorldScorer
from interleave_thinker.training.statistics.intervals import share

NOISE, JUDGES = 4.0, 8
IMAGES = 4
"""Images of a simulated run."""
SHIFT, RUN_ERROR = 1.0, 0.7
"""Distance of the scores of accepted and rejected images, and error that is common to a run's images, in
standard deviations."""


def exact_semantics(images: list[AnnotatedImage]) -> np.ndarray:
    """Return the exact scorer's semantics, `(images,)`; 0 where the source image cannot be read."""
    scorer = TinyWorldScorer()

    def semantics(image: AnnotatedImage) -> float:
        try:
            return scorer.score(image.before, image.after, image.prompt).semantics
        except ScorerError:
            return 0.0

    return np.array([semantics(image) for image in images])


def scores(values: np.ndarray) -> Scored:
    """Return values as scores."""
    return Scored([Score(semantics=float(one), quality=float(one)) for one in values])


def combine(runs: Path, made: int, seed: int) -> dict[str, Any]:
    """Compare combinations of noisy judges with one of them."""
    if made:
        generator = open_generator("tinyworld")
        assert isinstance(generator, TinyWorldGenerator)
        annotated_runs(runs, generator, AnnotatedRuns(made, 3, 0), print)
    images = annotated_images([runs])
    truth = exact_semantics(images)
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for common in (0.0, 0.5):
        own = random.normal(0, 1, (JUDGES, len(images)))
        noise = np.sqrt(common) * random.normal(0, 1, len(images)) + np.sqrt(1 - common) * own
        judges = np.clip(truth + NOISE * noise, 0, 10)
        blind = random.uniform(0, 10, len(images))
        arms = {"one judge": judges[0]}
        arms |= {f"mean of {count}": judges[:count].mean(0) for count in (2, 4, 8)}
        arms |= {"min of 2": judges[:2].min(0), "median of 3": np.median(judges[:3], 0)}
        arms |= {"mean of one judge and blind": (judges[0] + blind) / 2}
        arms |= {"mean of 3 x one judge and blind": (3 * judges[0] + blind) / 4}
        rows = [(name, scores(values)) for name, values in arms.items()]
        report = measure(images, [*rows, ("critic of the runs", critic_scores(images))], seed)
        print(f"common share of the noise's variance: {common}")
        print("\n".join(as_lines(report)), flush=True)
        found[str(common)] = report.model_dump()
    return found


def simulated(random: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return verdicts, scores and runs of simulated images."""
    units = np.repeat(np.arange(runs), IMAGES)
    verdicts = random.random(len(units)) < 0.6
    errors = random.normal(0, RUN_ERROR, runs)[units] + random.normal(0, 1, len(units))
    return verdicts, SHIFT * verdicts + errors, units


def coverage(repeats: int, seed: int) -> dict[str, Any]:
    """Return how often the interval of the AUC contains the true AUC, by number of runs."""
    random = np.random.default_rng(seed)
    spread = np.sqrt(2 * (1 + RUN_ERROR**2))
    # The probability that a normal difference is positive, for images of different runs.
    truth = float((random.normal(0, 1, 10_000_000) < SHIFT / spread).mean())
    found: dict[str, Any] = {"truth": truth}
    for runs in (5, 12, 20, 40):
        hits, widths = [], []
        for _ in range(repeats):
            verdicts, values, units = simulated(random, runs)
            groups = units if runs < 10 else np.arange(len(units))
            observed = Observed(list(verdicts), list(units), list(groups), int(random.integers(2**31)))
            figure = observed.figure(RankFigures(observed, values).auc)
            if figure.low is None or figure.high is None:
                continue
            hits.append(figure.low <= truth <= figure.high)
            widths.append(figure.high - figure.low)
        found[str(runs)] = {"coverage": share(hits).model_dump(), "width": float(np.mean(widths))}
        print(f"{runs} runs: covered {share(hits)}, mean width {np.mean(widths):.3f}", flush=True)
    return found


def main() -> None:
    """Run an experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("combine", "coverage"))
    parser.add_argument("runs", type=Path, nargs="?", help="Folder of annotated runs for combine.")
    parser.add_argument("--make", type=int, default=0, help="Number of runs to make; existing ones are kept.")
    parser.add_argument("--repeats", type=int, default=1000, help="Simulations for coverage.")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what == "combine":
        if options.runs is None:
            parser.error("combine needs a folder of runs")
        print(json.dumps(combine(options.runs, options.make, options.seed)))
    else:
        print(json.dumps(coverage(options.repeats, options.seed)))


if __name__ == "__main__":
    main()

"""Planner reinforcement in the tiny world, compared with rejection sampling and with more fine-tuning.

    python -m benchmarks.planner_reinforcement --out runs/planner-rl --seeds 5 --workers 2

Held-out stories are longer and phrased differently from those of the first fine-tuning. For each seed, the
shipped planner is fine-tuned on a few stories with 3 and 4 steps in unfamiliar phrasing and equally many with
2 to 6 steps in its own (`start`). From there, three arms are trained: reinforcement on requests with 5 and 6
steps in the unfamiliar phrasing (`grpo`), fine-tuning on the best of 8 own plans for as many of these
requests as grpo used (`rejection`), and fine-tuning on the same number of further stories of the first kinds
(`more`). All answer the same new stories with 5 and 6 steps greedily: in the unfamiliar phrasing (`longer`)
and in phrasing that was never trained on (`unseen`). A plan counts if it leads to the correct scene after
every step. A story counts if every image is correct, with an oracle critic and three attempts per step. The
same command continues a stopped run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.tinyworld.lab.ablation.findings import compare, mean_of
from interleave_thinker.tinyworld.lab.job_runner import LabJob, run_jobs
from interleave_thinker.training.statistics.bootstrap import Mean
from interleave_thinker.training.trainer.resume import claim_run

from .planner_arms import ARMS, ASKED, FIXED, Scale, Seed

PAIRS = (("grpo", "start"), ("grpo", "rejection"), ("grpo", "more"), ("rejection", "start"))
COUNTED = {"exact": "plans exact", "right": "stories right"}


def run_seed(folder: Path, seed: int, scale: Scale) -> None:
    """Run all stages of a seed in `folder`."""
    Seed(folder.parent, seed, scale).run()


def table(seeds: Sequence[Seed]) -> str:
    """Return a table of shares with bootstrapped intervals, and of paired differences.

    Differences have values per seed, McNemar's p on the stories, and the p of flipping the seeds' signs.
    """
    columns = [(name, what) for name in ASKED for what in COUNTED]

    def right(arm: str, name: str, what: str) -> list[list[bool]]:
        return [seed.found(arm)[name][what] for seed in seeds]

    lines = [f"| | {' | '.join(f'{name}: {COUNTED[what]}' for name, what in columns)} |"]
    lines.append("|---|" + "---|" * len(columns))
    for arm in ARMS:
        cells = [_interval(mean_of(right(arm, *column))) for column in columns]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    lines += ["", f"| each seed's mean | {' | '.join(f'{name}: match | steps written' for name in ASKED)} |"]
    lines.append("|---|" + "---|" * (2 * len(ASKED)))
    for arm in ARMS:
        means = [" ".join(f"{seed.found(arm)[name][what]:.2f}" for seed in seeds)
                 for name in ASKED for what in ("match", "steps")]  # fmt: skip
        lines.append(f"| {arm} | {' | '.join(means)} |")
    lines += ["", "| compared, story by story | difference | of each seed | p, stories | p, seeds |"]
    lines.append("|---|---|---|---|---|")
    for one, other in PAIRS:
        for column in columns:
            found = compare(one, other, right(one, *column), right(other, *column))
            each = " ".join(f"{value:+.3f}" for value in found.of_each_seed)
            cells = [f"{column[0]}, {COUNTED[column[1]]}: {one} over {other}"]
            cells += [
                _interval(found.difference, "+"),
                each,
                f"{found.p_stories:.2g}",
                f"{found.p_seeds:.2g}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(found: Mean, sign: str = "") -> str:
    return f"{found.mean:{sign}.3f} ({found.low:{sign}.3f} to {found.high:{sign}.3f})"


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--learned", type=int, default=480, help="stories of each kind in the first fine-tuning"
    )
    parser.add_argument("--rollouts", type=int, default=32)
    parser.add_argument("--updates", type=int, default=4, help="optimizer steps per rollout")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--stories", type=int, default=100, help="stories of each kind to ask about")
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=1, help="parallel processes, with one thread each")
    options = vars(parser.parse_args())
    out, workers = options.pop("out"), options.pop("workers")
    first, count = options.pop("first_seed"), options.pop("seeds")
    scale = Scale(**options)
    numbers = range(first, first + count)
    try:
        # Existing stages are not repeated, so they must have these settings.
        claim_run(out, {"stage": "planner reinforcement", **FIXED, **asdict(scale)})
        run_jobs([LabJob(out / f"seed-{seed}", run_seed, (seed, scale)) for seed in numbers], workers, print)
    except InterleaveError as error:
        raise SystemExit(str(error)) from error
    print(table([Seed(out, seed, scale) for seed in numbers]))


if __name__ == "__main__":
    main()

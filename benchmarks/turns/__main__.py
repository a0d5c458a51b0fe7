"""Single-step and multi-turn GRPO of the tiny world's critic with the same rollouts and steps.

    python -m benchmarks.turns --out runs/turns --first-seed 2 --seeds 5

Each seed trains a critic on filtered attempts (`evaluate ablation`'s full SFT), from which all arms start:
GRPO with the published reward of single steps, with the attempts of a step (`--turns 3`), with gradients of
the least certain tokens only, with a lower rate, and fine-tuning on the best of 8. Every arm then runs the
same new stories with their own plans and at most three attempts per step, and judges the same 200 new images.
The same command continues a stopped run; commands with other seeds may run at the same time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.tinyworld.lab.ablation.settings import AblationSettings
from interleave_thinker.tinyworld.lab.job_runner import perform
from interleave_thinker.training.trainer.resume import claim_run

from .arms import ARMS, jobs_of
from .found import report

START = Path("tests/data/agents")


def main() -> None:
    """Run the experiment and print its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=2)
    parser.add_argument(
        "--rollouts", type=int, default=24, help="rollouts of 16 x 8 answers, four steps each"
    )
    parser.add_argument("--stories", type=int, default=200, help="stories per arm and seed")
    parser.add_argument("--arms", default=",".join(ARMS), help="arms to train and measure, with commas")
    options = parser.parse_args()
    import torch

    wanted = {"sft", *options.arms.split(",")}
    if unknown := sorted(wanted - ARMS.keys()):
        parser.error(f"unknown arm {unknown[0]!r}, choose from {', '.join(ARMS)}")
    arms = [arm for arm in ARMS if arm in wanted]
    settings = AblationSettings(start=START, rollouts=options.rollouts, stories=options.stories)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    try:
        # Existing jobs are not repeated, so they must have these settings.
        kept = {"stage": "several turns", "rollouts": options.rollouts, "stories": options.stories}
        claim_run(options.out, kept)
        torch.set_num_threads(1)
        for job in (job for seed in seeds for job in jobs_of(options.out, settings, seed, arms)):
            if not job.done:
                print(f"{job.name} ...", flush=True)
                perform(job)
                print(f"{job.name}: {job.seconds:.0f} s", flush=True)
    except InterleaveError as error:
        raise SystemExit(str(error)) from error
    print(report(options.out, seeds, arms))


if __name__ == "__main__":
    main()

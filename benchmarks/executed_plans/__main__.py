"""GRPO of the tiny planner by the text of its plans, and by the images of executing them, compared.

    python -m benchmarks.executed_plans --out runs/executed --first-seed 1 --seeds 5

Each seed fine-tunes the shipped planner on stories with random clauses in half of their prompts (`start`).
From there: GRPO with the exact judge of texts (`text`), GRPO with the same judge and the images of the
executed plans (`executed`), and fine-tuning on the best of 8 by the reward with images (`rejection`), all for
the same requests. Two rows train nothing: the stories' own terse plans, and these with a clause for each
changed cell. All run the same new stories without a critic, and with at most three attempts per step with the
shipped critic and with an oracle. The same command continues a stopped run; commands with other seeds may run
at the same time.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.tinyworld.lab.job_runner import LabJob, perform
from interleave_thinker.training.trainer.resume import claim_run

from . import arms
from .arms import Scale
from .found import FOUND, Found, measure, report

TRAINED = ("start", "text", "executed", "rejection")
GIVEN = {"own plans": False, "own plans, explicit": True}
PAIRS = (("executed", "text"), ("executed", "start"), ("executed", "rejection"), ("text", "start"))


def jobs_of(out: Path, scale: Scale, stories: int, seed: int) -> list[LabJob]:
    """Return the jobs of a seed in order."""
    folder = out / f"seed_{seed}"
    start, rows = folder / "start", folder / "rows"
    jobs = [LabJob(start, arms.start, (scale, seed)), LabJob(rows, arms.requests, (scale, seed))]
    for name, executed in (("text", False), ("executed", True)):
        given = (scale, seed, start, rows, executed)
        jobs.append(LabJob(folder / name, arms.reinforce, given, (start, rows)))
    jobs.append(LabJob(folder / "rejection", arms.rejection, (scale, seed, start, rows), (start, rows)))
    for name in TRAINED:
        planner = folder / name
        jobs.append(LabJob(folder / f"measured {name}", measure, (stories, seed, planner), (planner,)))
    for name, explicit in GIVEN.items():
        jobs.append(LabJob(folder / f"measured {name}", measure, (stories, seed, None, explicit)))
    return jobs


def main() -> None:
    """Run the experiment and print its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--learned", type=int, default=4000, help="stories of the first fine-tuning")
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--prompts", type=int, default=16, help="requests of a rollout, of 8 plans each")
    parser.add_argument("--updates", type=int, default=4, help="optimizer steps per rollout")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--temperature", type=float, default=0.7, help="of sampled plans")
    parser.add_argument("--stories", type=int, default=100, help="new stories per arm and seed")
    options = vars(parser.parse_args())
    import torch

    out, stories = options.pop("out"), options.pop("stories")
    first, count = options.pop("first_seed"), options.pop("seeds")
    scale, seeds = Scale(**options), range(first, first + count)
    try:
        # Existing jobs are not repeated, so they must have these settings.
        claim_run(out, {"stage": "executed plans", "stories": stories, **asdict(scale)})
        torch.set_num_threads(1)
        for job in (job for seed in seeds for job in jobs_of(out, scale, stories, seed)):
            if not job.done:
                print(f"{job.name} ...", flush=True)
                perform(job)
                print(f"{job.name}: {job.seconds:.0f} s of the processor", flush=True)
    except InterleaveError as error:
        raise SystemExit(str(error)) from error

    def found(name: str) -> list[Found]:
        paths = [out / f"seed_{seed}" / f"measured {name}" / FOUND for seed in seeds]
        return [Found.model_validate_json(path.read_text(encoding="utf-8")) for path in paths]

    print(report({name: found(name) for name in (*TRAINED, *GIVEN)}, PAIRS))


if __name__ == "__main__":
    main()

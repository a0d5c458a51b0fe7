"""Benefit of `data planner-rows` other than whole plans, for plans of new stories and their continuations.

    OMP_NUM_THREADS=1 python -m benchmarks.planner_kinds --runs runs/chain/runs --out runs/kinds

Planners are trained with and without these rows. Both start from the tiny world's planner (`train planner-sft
--config tiny`) and use the same trajectories, learning rate and number of optimizer steps. One gets rows of
all kinds, the other only whole plans, so each plan is seen more often there. A seed determines the order of
the rows. Rows and trainings use documented commands. The questions are those that `planner-rows` would ask
about stories that no planner was trained on, with all images correct. An answer counts if all its steps are
exact. Pairs are compared case by case over all seeds. A stopped run can be continued. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from interleave_thinker.backend.answers.reading import read_plan
from interleave_thinker.backend.errors import AnswerError
from interleave_thinker.backend.types import Attempt, StepResult, StopReason, Trajectory
from interleave_thinker.tinyworld.lab.data.prompts import PROMPT_SET
from interleave_thinker.tinyworld.lab.runs.stories import request_of
from interleave_thinker.tinyworld.lab.world.requests import TinyStory, random_story
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.training.data.planner_rows.kinds import (
    PlannerQuestion,
    QuestionMaker,
)
from interleave_thinker.training.data.planner_rows.settings import KINDS
from interleave_thinker.training.data.rows.conversations import as_prompt_completion
from interleave_thinker.training.data.rows.sft import SftMessage, SftRow
from interleave_thinker.training.gate.held_out import greedy_answers
from interleave_thinker.training.statistics.intervals import paired_difference, share

from . import ROOT
from .chain import HERE

ARMS = {"all kinds": ",".join(KINDS), "whole plans": "text"}
UNTRAINED = "as shipped"
MAX_TOKENS = 400
"""Maximum tokens of an answer, twice those of a plan with six steps."""
ASKED_AT_A_TIME = 50


def command(*arguments: str) -> float:
    """Run a documented command and return its processor seconds."""
    print(f"$ interleave-thinker {' '.join(arguments)}", flush=True)
    process = subprocess.Popen(
        [sys.executable, "-c", HERE, str(ROOT / "tests"), *arguments], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"{arguments[0]} {arguments[1]} failed")
    return used.ru_utime + used.ru_stime


def questions(stories: int) -> list[PlannerQuestion]:
    """Return all kinds of questions about new stories."""
    rng = Random("planner kinds")
    asking = QuestionMaker(KINDS, PROMPT_SET)
    told = [as_told(random_story(rng, "evaluate")) for _ in range(stories)]
    return [
        one for number, story in enumerate(told) for one in asking.questions_of(f"new {number}", story)[0]
    ]


def as_told(story: TinyStory) -> Trajectory:
    """Return a story as a trajectory in which every image was correct at the first attempt."""
    results, pages = [], iter(story.pages)
    for step in story.plan.steps:
        drawn = [Attempt(prompt=step.prompt, seed=0, image=draw(next(pages)))] if step.prompt else []
        reason = StopReason.accepted if drawn else StopReason.text_only
        chosen = 0 if drawn else None
        results.append(StepResult(step=step, attempts=tuple(drawn), chosen=chosen, stop_reason=reason))
    return Trajectory(request=request_of(story), plan=story.plan, results=tuple(results))


def answered_right(planner: Path, asked: Sequence[PlannerQuestion]) -> dict[str, list[bool]]:
    """Return for each kind of question whether the steps of each answer are exact."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    only_here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    model = AutoModelForImageTextToText.from_pretrained(
        planner, use_safetensors=True, dtype=torch.float32, **only_here
    )
    processor = AutoProcessor.from_pretrained(planner, **only_here)
    # Sort questions by length, because a batch is as long as its longest one.
    order = sorted(range(len(asked)), key=lambda number: (asked[number].kind, len(asked[number].answer)))
    prompts = [as_prompt(asked[number]) for number in order]
    answers = greedy_answers(model, processor, prompts, MAX_TOKENS, ASKED_AT_A_TIME)[0]
    right: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    said = dict(zip(order, answers, strict=True))
    for number, question in enumerate(asked):
        right[question.kind].append(steps_of(said[number]) == steps_of(question.answer))
    return right


def as_prompt(asked: PlannerQuestion) -> dict[str, Any]:
    """Return a question in the form of the trainer."""
    turns = [
        SftMessage(role="user", content=asked.text),
        SftMessage(role="assistant", content=asked.answer),
    ]
    row = SftRow(messages=turns, images=["-"] * len(asked.images))
    return {"prompt": as_prompt_completion(row, Path())["prompt"], "images": list(asked.images)}


def steps_of(answer: str) -> object:
    """Return the steps of an answer; `None` if it cannot be read."""
    try:
        return read_plan(answer).steps
    except AnswerError:
        return None


def trained(arm: str, seed: int, options: argparse.Namespace) -> tuple[Path, float]:
    """Return the planner of an arm and seed, and the processor seconds of its training."""
    name = arm.replace(" ", "-")
    data, out = options.out / f"rows-{name}", options.out / f"{name}-{seed}"
    if not data.exists():
        prompts = ("--planner-prompts", str(checkpoint("planner")))
        command("data", "planner-rows", str(options.runs), "--out", str(data), *prompts, "--kinds", ARMS[arm])
    rows = len(json.loads((data / "planner_sft.json").read_text(encoding="utf-8")))
    epochs = options.steps * options.batch / rows
    spent = command(
        *("train", "planner-sft", "--config", "tiny", "--bf16"),
        *("--data", str(data / "planner_sft.json"), "--out", str(out), "--seed", str(seed)),
        *(
            "--num-train-epochs",
            f"{epochs:.4f}",
            "--per-device-train-batch-size",
            str(options.batch),
            "--learning-rate",
            str(options.rate),
        ),
        *("--samples", "0"),
    )
    return out / "final", spent


def carry_out(options: argparse.Namespace) -> dict[str, list[dict[str, list[bool]]]]:
    """Train and ask both planners of every seed, and their start. Results are stored immediately."""
    found: dict[str, list[dict[str, list[bool]]]] = {UNTRAINED: [], **{arm: [] for arm in ARMS}}
    asked = questions(options.stories)
    for seed, arm in [(0, UNTRAINED), *((seed, arm) for seed in range(options.seeds) for arm in ARMS)]:
        noted = options.out / f"{arm.replace(' ', '-')}-{seed}.json"
        if not noted.exists():
            place, spent = (checkpoint("planner"), 0.0) if arm == UNTRAINED else trained(arm, seed, options)
            used = time.process_time()
            right = answered_right(place, asked)
            shares = {kind: round(share(one).rate, 3) for kind, one in right.items()}
            asking = time.process_time() - used
            print(f"{arm}, seed {seed}: {shares}; {spent:.0f} and {asking:.0f} s of processor", flush=True)
            noted.write_text(json.dumps({"processor_seconds": [spent, asking], "right": right}))
        found[arm].append(json.loads(noted.read_text())["right"])
    return found


def table(found: dict[str, list[dict[str, list[bool]]]]) -> dict[str, Any]:
    """Print and return the shares by seed and overall, and the differences case by case."""
    one, other = ARMS
    print(f"\n| asked about new stories | {UNTRAINED} | {other} | {one} | {one} less {other} |")
    print("|---|---|---|---|---|")
    whole: dict[str, Any] = {}
    for kind in KINDS:
        flat = {arm: [case for right in found[arm] for case in right[kind]] for arm in found}
        cells = []
        for arm in (UNTRAINED, other, one):
            all_of = share(flat[arm])
            by_seed = [round(share(right[kind]).rate, 3) for right in found[arm]]
            whole.setdefault(kind, {})[arm] = {**all_of.model_dump(), "by_seed": by_seed}
            cells.append(f"{all_of.rate:.3f} ({all_of.low:.3f} to {all_of.high:.3f})")
            cells[-1] += f"; {' '.join(f'{rate:.3f}' for rate in by_seed)}" if len(by_seed) > 1 else ""
        gap = paired_difference(flat[one], flat[other])
        whole[kind]["difference"] = gap.model_dump()
        print(f"| {kind} | {' | '.join(cells)} | {gap} |")
    return whole


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=Path, required=True, help="Trajectories, such as those of benchmarks/chain.py."
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100, help="Optimizer steps.")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--stories", type=int, default=80, help="Number of new stories to ask about.")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    whole = {name: getattr(options, name) for name in ("seeds", "steps", "batch", "rate", "stories")}
    whole |= table(carry_out(options))
    print(json.dumps(whole))


if __name__ == "__main__":
    main()

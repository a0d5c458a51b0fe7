"""Planner reinforcement in the tiny world: fine-tuning against planner-grpo, best-of-8 rejection fine-tuning
with the same reward, and more fine-tuning, on held-out stories that are longer and worded otherwise.

    python benchmarks/planner_reinforcement.py --out runs/planner-rl --seeds 5

For each seed: the shipped planner is fine-tuned on a few stories of 3 to 6 steps in other words than its own
(`start`); then, each from there, it is reinforced on requests of 5 to 8 steps (`grpo`), fine-tuned on the
best of 8 of its own plans for as many of these requests as grpo saw (`rejection`), and fine-tuned on as many
more stories of the kind that it started with (`more`). All are asked, greedily, about the same new stories
of 7 and 8 steps: in the words that were trained on (`longer`) and in words that nobody was trained on
(`unseen`). A plan counts if it leads to the right page after every step. Every stage leaves a file and is not
made again: the same command goes on after a stop.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable

from interleave_thinker.backend.prompts import prompt_set_of
from interleave_thinker.backend.tinyworld import checkpoint
from interleave_thinker.training.evaluation.held_out import greedy_answers
from interleave_thinker.training.evaluation.intervals import share
from interleave_thinker.training.grpo.planner_settings import PlannerGrpoTraining, split_planner_rows
from interleave_thinker.training.grpo.planner_task import PlannerTask
from interleave_thinker.training.grpo.train import RlData
from interleave_thinker.training.grpo.train import train as reinforce
from interleave_thinker.training.reward.plans.judging import JudgingSettings, PlanJudging
from interleave_thinker.training.reward.plans.reward import plan_samples
from interleave_thinker.training.reward.plans.terms import PlanRewardSettings
from interleave_thinker.training.rows.planner_rl import PlannerRlRow, planner_question, read_planner_rl
from interleave_thinker.training.rows.row_sets import RowSet
from interleave_thinker.training.rows.sft import SftMessage, SftRow, read_rows, write_rows
from interleave_thinker.training.sft.data import SftData
from interleave_thinker.training.sft.settings import SftTraining
from interleave_thinker.training.sft.train import train as fine_tune
from interleave_thinker.training.tinyworld.planning.rows import (
    StoryKind,
    make_planner_rl,
    make_stories_sft,
)
from interleave_thinker.training.tinyworld.planning.simulated_world import SimulatedWorld

TOKENS, BATCH = 480, 64
LEARNED = StoryKind(3, 6, "other")
REINFORCED = StoryKind(5, 8, "other")
ASKED = {"longer": StoryKind(7, 8, "other"), "unseen": StoryKind(7, 8, "unseen")}
ARMS = ("start", "grpo", "rejection", "more")
GROUP = 8
AT_ONCE = BATCH // GROUP
"""Requests that are sampled together."""


@dataclass(frozen=True)
class Scale:
    """How much is trained and asked."""

    learned: int
    rollouts: int
    updates: int
    prompts: int
    stories: int
    rate: float
    temperature: float
    threads: int

    @property
    def reinforced(self) -> int:
        return self.rollouts * self.prompts


def log_of(folder: Path) -> Callable[[str], None]:
    def log(line: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {line}\n")

    return log


def sft(start: Path, rows: list[SftRow], folder: Path, out: Path, rate: float, seed: int) -> Path:
    settings = SftTraining(
        epochs=1, batch=16, rate=rate, warm_up=0.05, weight_decay=0.01, second_moment=0.98,
        freeze_vision=False, save_every=250, device="cpu", half="fp16", seed=seed, samples=0,
        tensorboard=False,
    )  # fmt: skip
    return fine_tune(start, SftData(RowSet(rows, folder)), out, settings, prompt_set_of(start), log_of(out))


class Answering:
    """A planner of a folder that answers rows in batches."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self.model: Any = AutoModelForImageTextToText.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
        )
        self.processor: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)
        self.processor.tokenizer.padding_side = "left"
        prompt_set = prompt_set_of(folder)
        assert prompt_set is not None
        self.prompt_set = prompt_set

    def answers(self, rows: list[PlannerRlRow], folder: Path, temperature: float = 0.0) -> list[str]:
        asked = [planner_question(row, folder, folder / "shown", self.prompt_set) for row in rows]
        return greedy_answers(self.model, self.processor, asked, TOKENS, BATCH, temperature)[0]


def judged(answers: list[str], rows: list[PlannerRlRow], folder: Path) -> list[Any]:
    import asyncio

    judging = PlanJudging(SimulatedWorld(), JudgingSettings())
    return asyncio.run(plan_samples(answers, rows, judging, PlanRewardSettings(), folder))


class Seed:
    """One seed's stages below a folder."""

    def __init__(self, out: Path, seed: int, scale: Scale) -> None:
        self.out, self.seed, self.scale = out / f"seed-{seed}", seed, scale

    def planner(self, arm: str) -> Path:
        return self.out / arm / "final"

    def rows(self, name: str, count: int, kind: StoryKind, asked: bool = False) -> Path:
        path = self.out / name / "planner_rl.jsonl"
        if not path.exists():
            make_planner_rl(path.parent, count, self.seed, kind, "evaluate" if asked else "train")
        return path

    def run(self) -> None:
        scale = self.scale
        few = self.out / "few" / "planner_sft.json"
        if not few.exists():
            make_stories_sft(few.parent, scale.learned + scale.reinforced, self.seed, LEARNED)
        rows = read_rows(few)
        timed = self.timed
        timed("start", lambda: sft(checkpoint("planner"), rows[: scale.learned], few.parent,
                                   self.out / "start", 1e-3, self.seed))  # fmt: skip
        timed("grpo", self.reinforced)
        timed("rejection", self.rejection)
        timed("more", lambda: sft(self.planner("start"), rows[scale.learned :], few.parent,
                                  self.out / "more", 3e-4, self.seed))  # fmt: skip
        for arm in ARMS:
            timed(f"asked-{arm}", lambda arm=arm: self.asked(arm))

    def timed(self, name: str, work: Callable[[], object]) -> None:
        """Do the work unless its file of seconds is there."""
        path = self.out / f"{name}.json"
        if path.exists():
            return
        began, processor = time.monotonic(), time.process_time()
        work()
        taken = {"seconds": time.monotonic() - began, "processor": time.process_time() - processor}
        path.write_text(json.dumps(taken))
        print(f"seed {self.seed}: {name} {taken['processor']:.0f} s of the processor", flush=True)

    def reinforced(self) -> None:
        scale = self.scale
        path = self.rows("rl", scale.reinforced + 64, REINFORCED)
        settings = PlannerGrpoTraining(
            rate=scale.rate, weight_decay=0.01, temperature=scale.temperature, prompts=scale.prompts,
            group=GROUP, updates=scale.updates, micro_batch=32, rollouts=scale.rollouts, answer_tokens=TOKENS,
            device="cpu", half="fp16", save_every=max(1, scale.rollouts // 4), check_rows=48,
            check_batch=48, tensorboard=False, seed=self.seed,
        )  # fmt: skip
        rows, held = split_planner_rows(read_planner_rl(path)[0], settings)
        task = PlannerTask(SimulatedWorld(), PlanRewardSettings(), JudgingSettings(), path.parent)
        data = RlData(rows, held, path.parent)
        reinforce(self.planner("start"), data, self.out / "grpo", settings, task, log_of(self.out / "grpo"))

    def rejection(self) -> None:
        """The best of eight own plans of each request that grpo saw, if it is readable; ties by the first."""
        import torch

        path = self.rows("rl", self.scale.reinforced + 64, REINFORCED)
        rows = read_planner_rl(path)[0][: self.scale.reinforced]
        made = self.out / "rejection.rows.json"
        if not made.exists():
            torch.manual_seed(self.seed)
            planner = Answering(self.planner("start"))
            best: list[SftRow] = []
            for start in range(0, len(rows), AT_ONCE):
                some = [row for row in rows[start : start + AT_ONCE] for _ in range(GROUP)]
                answers = planner.answers(some, path.parent, self.scale.temperature)
                samples = judged(answers, some, path.parent)
                for place in range(0, len(some), GROUP):
                    chosen = max(samples[place : place + GROUP], key=lambda sample: sample.overall)
                    if chosen.match > 0:
                        best.append(_taught(some[place], chosen.answer, path.parent, planner))
            write_rows(made, best)
        sft(self.planner("start"), read_rows(made), made.parent, self.out / "rejection", 3e-4, self.seed)

    def asked(self, arm: str) -> None:
        planner = Answering(self.planner(arm))
        found = {}
        for name, kind in ASKED.items():
            path = self.rows(name, self.scale.stories, kind, asked=True)
            rows = read_planner_rl(path)[0]
            samples = judged(planner.answers(rows, path.parent), rows, path.parent)
            found[name] = {
                "exact": [bool(sample.exact) for sample in samples],
                "match": sum(sample.match for sample in samples) / len(samples),
                "steps": sum(sample.steps for sample in samples) / len(samples),
            }
        (self.out / f"{arm}.found.json").write_text(json.dumps(found))

    def found(self, arm: str) -> dict[str, Any]:
        return json.loads((self.out / f"{arm}.found.json").read_text())


def _taught(row: PlannerRlRow, answer: str, folder: Path, planner: Answering) -> SftRow:
    from interleave_thinker.training.rows.conversations import MARK

    asked = planner_question(row, folder, folder / "shown", planner.prompt_set)
    parts = asked["prompt"][0]["content"]
    text = "".join(MARK if part["type"] == "image" else part["text"] for part in parts)
    turns = [SftMessage(role="user", content=text), SftMessage(role="assistant", content=answer)]
    return SftRow(messages=turns, images=[f"{folder.name}/{name}" for name in row.images])


def table(seeds: list[Seed]) -> str:
    """Exact plans of each arm, pooled over seeds, with Wilson's intervals, and paired against the start and
    against grpo (exact McNemar; only one of the two right)."""
    from scipy.stats import binomtest

    def right(arm: str, name: str) -> list[bool]:
        return [one for seed in seeds for one in seed.found(arm)[name]["exact"]]

    lines = ["| | " + " | ".join(ASKED) + " |", "|---|" + "---|" * len(ASKED)]
    for arm in ARMS:
        cells = [str(share(right(arm, name))) for name in ASKED]
        by_seed = [f" {[_rate(seed, arm, name) for seed in seeds]}" for name in ASKED]
        lines.append(f"| {arm} | " + " | ".join(a + b for a, b in zip(cells, by_seed, strict=True)) + " |")
    for one, other in (("grpo", "start"), ("grpo", "rejection"), ("grpo", "more"), ("rejection", "start")):
        for name in ASKED:
            pairs = list(zip(right(one, name), right(other, name), strict=True))
            won, lost = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
            p = binomtest(won, won + lost).pvalue if won + lost else 1.0
            lines.append(f"{name}: only {one} right {won}, only {other} {lost}, p = {p:.2g}")
    return "\n".join(lines)


def _rate(seed: Seed, arm: str, name: str) -> float:
    exact = seed.found(arm)[name]["exact"]
    return round(sum(exact) / len(exact), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--learned", type=int, default=480, help="stories of the first fine-tuning")
    parser.add_argument("--rollouts", type=int, default=30)
    parser.add_argument("--updates", type=int, default=4, help="optimiser steps of a rollout")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--stories", type=int, default=100, help="of each kind that is asked about")
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    options = vars(parser.parse_args())
    out, count = options.pop("out"), options.pop("seeds")
    scale = Scale(**options)
    import torch

    torch.set_num_threads(scale.threads)
    seeds = [Seed(out, seed, scale) for seed in range(count)]
    for seed in seeds:
        seed.run()
    print(table(seeds))


if __name__ == "__main__":
    main()

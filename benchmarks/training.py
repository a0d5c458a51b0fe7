"""Cost of training in miniature on a CPU: tokens per second of fine-tuning, and the parts of an RL step.

    python -m benchmarks.training                   # pairs of whole trainings; the last line is JSON
    python -m benchmarks.training --pairs 1 --rollouts 2 --prompts 4

Reinforcement learning runs twice per pair on the same rows with the same seed: A with the batched, cached
engine, and B with an engine that generates and scores one by one and caches nothing, like the published
reward. Both run the same training, so whole loops are compared. Their rewards are compared first, and the
ratio is given with the share that was equal, because generating many images at once rounds differently. The
parts come from the timers that every training logs. Rows are rendered images, half of them with invented
mistakes; models are the shipped tiny checkpoints. Wall-clock time depends on other programs, counters do not;
processor seconds are given for both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.scorers import open_scorer
from interleave_thinker.tinyworld.lab.data.critic_rows import ImageFolder, make_rendered
from interleave_thinker.tinyworld.lab.data.rl_rows import rl_row
from interleave_thinker.tinyworld.lab.world.judged_images import rendered
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.training.data.rows.rl import CriticRlRow
from interleave_thinker.training.data.rows.row_sets import RowSet
from interleave_thinker.training.gate.monitored_run import TrainingData
from interleave_thinker.training.grpo import train as grpo
from interleave_thinker.training.grpo.critic_task import CriticTask
from interleave_thinker.training.grpo.settings import GrpoTraining
from interleave_thinker.training.recipes.estimates.doctor import settings_of
from interleave_thinker.training.recipes.recipe import read_recipe
from interleave_thinker.training.reward.critic_reward import RewardSettings, RewardSetup
from interleave_thinker.training.reward.redraws.batch_counts import BatchCounts
from interleave_thinker.training.reward.redraws.drawing_settings import DrawingSettings
from interleave_thinker.training.reward.redraws.redrawer import Outcome, Redraw, Redrawer
from interleave_thinker.training.sft import train as sft
from interleave_thinker.training.sft.train import SftTraining

PARTS = ("rollout", "draw", "score", "reward", "update", "step")
COUNTED = ("asked", "drawn", "failed", "repeated")


class OneByOne(Redrawer):
    """Generates and scores one redraw after the other, without sharing or caching results."""

    async def score_all(self, redraws: Sequence[Redraw]) -> tuple[list[Outcome], BatchCounts]:
        """Process all redraws one by one."""
        started = time.monotonic()
        counts = BatchCounts(asked=len(redraws))
        outcomes = [self._one(redraw, counts) for redraw in redraws]
        counts.seconds = time.monotonic() - started
        return outcomes, counts

    def _one(self, redraw: Redraw, counts: BatchCounts) -> Outcome:
        try:
            began = time.monotonic()
            picture = self.generator.draw(redraw.prompt, redraw.before, redraw.seed)
            counts.drawn, drawn = counts.drawn + 1, time.monotonic()
            shown = picture.scaled_to(redraw.before.size) if redraw.before else picture
            score = self.scorer.score(redraw.before, shown, redraw.original_prompt)
            counts.scored += 1
            counts.draw_seconds += drawn - began
            counts.score_seconds += time.monotonic() - drawn
        except InterleaveError as error:
            counts.failed += 1
            return Outcome(None, None, str(error))
        return Outcome(score, picture)


REDRAWERS: dict[str, type[Redrawer]] = {"batched, cached": Redrawer, "one by one": OneByOne}


@dataclass
class Heard:
    """Log lines of a training with wall-clock and processor time of their arrival."""

    lines: list[tuple[str, float, float]] = field(default_factory=list)

    def __call__(self, line: str) -> None:
        """Record a line."""
        self.lines.append((line, time.monotonic(), time.process_time()))

    def between(self, first: str, last: str) -> tuple[float, float]:
        """Return wall-clock and processor seconds between two lines, found by their prefixes."""
        begun = next(one for one in self.lines if one[0].startswith(first))
        ended = next(one for one in reversed(self.lines) if one[0].startswith(last))
        return ended[1] - begun[1], ended[2] - begun[2]


def log_of(out: Path) -> list[dict[str, Any]]:
    """Return the trainer's log from the last checkpoint."""
    last = max((out / "steps").glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    return json.loads((last / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]


def fine_tuning(folder: Path, steps: int, rounds: int) -> dict[str, Any]:
    """Return tokens per second of the tiny critic's fine-tuning, without the first logged step (warm-up)."""
    recipe = settings_of(read_recipe("tiny", "critic-sft"), "critic-sft")
    assert isinstance(recipe, SftTraining)
    settings = recipe.model_copy(update={"save_steps": steps, "samples": 0, "tensorboard": False})
    rows = make_rendered(folder / "sft", 0, steps * settings.per_device_train_batch_size, seed=0)
    rates = []
    row: dict[str, Any] = {}
    for number in range(rounds):
        heard, out = Heard(), folder / f"sft-{number}"
        data = sft.SftData(RowSet(rows, folder / "sft"))
        sft.train(checkpoint("critic"), data, out, settings, log=heard)
        logged = [entry for entry in log_of(out) if "num_tokens" in entry and "loss" in entry]
        first, last = logged[0], logged[-1]
        wall, cpu = heard.between(f"step {first['step']}/", f"step {last['step']}/")
        tokens, count = last["num_tokens"] - first["num_tokens"], last["step"] - first["step"]
        rates.append(tokens / wall)
        row = {
            "steps": count,
            "rows": count * settings.per_device_train_batch_size,
            "tokens": int(tokens),
            "tokens_a_row": round(tokens / (count * settings.per_device_train_batch_size), 1),
            "cpu_seconds_a_step": round(cpu / count, 3),
            "tokens_a_cpu_second": round(tokens / cpu),
        }
    return row | {"tokens_a_second": round(median(rates)), "range": [round(min(rates)), round(max(rates))]}


def questions(folder: Path, count: int) -> list[CriticRlRow]:
    """Return rows about rendered images, half of them correct, alternating and starting with a wrong one."""
    rng, pages = Random(0), ImageFolder(folder / "pages")
    found: dict[bool, list[CriticRlRow]] = {True: [], False: []}
    while any(len(rows) < (count + 1) // 2 for rows in found.values()):
        drawn = rendered(rng)
        if len(found[drawn.success]) < (count + 1) // 2:
            found[drawn.success].append(rl_row(drawn, pages))
    pairs = zip(found[False], found[True], strict=True)
    return [row for pair in pairs for row in pair][:count]


def reinforce(
    name: str, rows: Sequence[CriticRlRow], folder: Path, out: Path, settings: GrpoTraining, redraw: str
) -> dict[str, Any]:
    """Run one training with this engine; returns seconds per rollout by part, counters, and rewards."""
    heard = Heard()
    grpo.train(
        checkpoint("critic"),
        TrainingData(rows[2:], rows[:2], folder),
        out,
        settings,
        CriticTask(
            RewardSetup(
                open_generator("tinyworld"),
                open_scorer("tinyworld"),
                RewardSettings.model_validate({"redraw": redraw}),
                DrawingSettings(),
                redrawer=REDRAWERS[name],
            )
        ),
        heard,
    )
    steps = [entry for entry in log_of(out) if "seconds/step" in entry]
    begun = "step 0 held out"
    wall, cpu = heard.between(begun, "step ")
    rollouts = settings.rollouts or 1
    seconds = {part: sum(step.get(f"seconds/{part}") or 0.0 for step in steps) / rollouts for part in PARTS}
    counts = {key: round(sum(step.get(f"redraw/{key}") or 0.0 for step in steps)) for key in COUNTED}
    written = [line for path in sorted((out / "rollouts").glob("*.jsonl")) for line in path.open()]
    samples = [json.loads(line) for line in written]
    return {
        "engine": name,
        "seconds": {part: round(value, 3) for part, value in seconds.items()},
        "wall_seconds": round(wall, 2),
        "cpu_seconds": round(cpu, 2),
        "answers": len(samples),
        "answer_tokens": round(
            sum(step.get("completions/mean_length") or 0.0 for step in steps if "seconds/rollout" in step)
            / rollouts
        ),
        **counts,
        "served": round(1 - counts["drawn"] / counts["asked"], 3) if counts["asked"] else None,
        "rewards": [sample["overall"] for sample in samples],
        "words": [sample["answer"] for sample in samples],
    }


def equal(one: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Return the shares of equal answers and equal rewards in both trainings."""
    words = [a == b for a, b in zip(one["words"], other["words"], strict=True)]
    rewards = [a == b for a, b in zip(one["rewards"], other["rewards"], strict=True)]
    return {
        "answers": round(sum(words) / len(words), 3),
        "rewards": round(sum(rewards) / len(rewards), 3),
    }


def ratios(pairs: Sequence[dict[str, dict[str, Any]]], key: str, part: str = "") -> dict[str, Any]:
    """Return the ratio of one-by-one to batched per pair: median and range."""
    found = []
    for pair in pairs:
        ours, theirs = (pair[name][key] for name in REDRAWERS)
        found.append(theirs[part] / ours[part] if part else theirs / ours)
    return {
        "median": round(median(found), 2),
        "range": [round(min(found), 2), round(max(found), 2)],
    }


def shown(row: dict[str, Any]) -> str:
    """Format a row."""
    seconds = row["seconds"]
    split = "  ".join(f"{part} {seconds[part]:6.2f}" for part in PARTS)
    return (
        f"{row['engine']:16} {split}  | {row['asked']:4} asked {row['drawn']:4} drawn, "
        f"{row['served']:.0%} served | {row['cpu_seconds']:.1f} s of processor"
    )


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2, help="pairs of trainings, in the order A B A B")
    parser.add_argument("--rollouts", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=16, help="rows per rollout, with eight answers each")
    parser.add_argument("--rows", type=int, help="number of different rows; default: as many as are used")
    parser.add_argument("--temperature", type=float, help="default: that of the recipe")
    parser.add_argument("--redraw", choices=("failed", "refused"), default="failed")
    parser.add_argument("--sft-steps", type=int, default=12)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    recipe = settings_of(read_recipe("tiny", "critic-grpo"), "critic-grpo")
    assert isinstance(recipe, GrpoTraining)
    changes: dict[str, Any] = {
        "rollouts": options.rollouts,
        "prompts": options.prompts,
        "save_every": options.rollouts,
        "check_rows": 2,
        "collapse_threshold": 0.0,
        "tensorboard": False,
    }
    if options.temperature:
        changes["temperature"] = options.temperature
    if options.prompts * recipe.num_generations % recipe.per_device_train_batch_size:
        changes["per_device_train_batch_size"] = recipe.num_generations
    settings = recipe.model_copy(update=changes)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tuned = fine_tuning(folder, options.sft_steps, options.pairs)
        print(
            f"fine-tuning: {tuned['tokens_a_second']} tokens/s ({tuned['range'][0]}-{tuned['range'][1]}), "
            f"{tuned['tokens_a_row']} tokens a row, {tuned['tokens_a_cpu_second']} a second of processor",
            flush=True,
        )
        rows = questions(folder, 2 + (options.rows or options.rollouts * options.prompts))
        print("seconds a rollout; drawing and scoring overlap within the reward:")
        pairs = []
        for number in range(options.pairs):
            pair = {}
            for engine in REDRAWERS:
                out = folder / f"grpo-{number}-{engine.replace(' ', '-')}"
                pair[engine] = reinforce(engine, rows, folder, out, settings, options.redraw)
                print(shown(pair[engine]), flush=True)
            pairs.append(pair)
    same = [equal(*pair.values()) for pair in pairs]
    summary = {
        "fine_tuning": tuned,
        "rollouts": options.rollouts,
        "prompts": options.prompts,
        "group": settings.num_generations,
        "temperature": settings.temperature,
        "redraw": options.redraw,
        "pairs": [
            {
                engine: {key: value for key, value in row.items() if key not in ("rewards", "words")}
                for engine, row in pair.items()
            }
            for pair in pairs
        ],
        "equal": same,
        "one_by_one_over_batched": {
            "reward, wall": ratios(pairs, "seconds", "reward"),
            "step, wall": ratios(pairs, "seconds", "step"),
            "training, wall": ratios(pairs, "wall_seconds"),
            "training, processor": ratios(pairs, "cpu_seconds"),
        },
    }
    for what, ratio in summary["one_by_one_over_batched"].items():
        print(f"{what}: one by one takes {ratio['median']} times as long ({ratio['range']})")
    print(f"equal answers and rewards: {same}")
    print(json.dumps(summary))


if __name__ == "__main__":
    main()

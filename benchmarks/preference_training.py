"""Preference training of the tiny world's critic, compared with fine-tuning on the better answers.

    python -m benchmarks.preference_training --out runs/preference

The shipped critic (or another, `--critic`) answers rows several times, and the reward of critic-grpo scores
the answers. The best and worst of each row form a pair. From the same start, `dpo` learns the pairs and
`best_sft` only the chosen answers, in the same number of steps. All three answer new rows greedily. The JSON
output contains correct verdicts with both recalls, the reward, and the gain in semantics from refined prompts
where something is redrawn, with 95 % intervals of shares (Wilson) and of the paired reward differences
(bootstrap).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.prompts import PromptSet, prompt_set_of
from interleave_thinker.backend.scorers import open_scorer
from interleave_thinker.tinyworld.lab.data.rl_rows import make_rl
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.training.data.rows.preference import read_critic_pairs
from interleave_thinker.training.data.rows.rl import CriticRlRow, as_question, read_rl_rows
from interleave_thinker.training.data.rows.row_sets import RowSet
from interleave_thinker.training.dpo.pairs.sampled import PairMaker, SampledRows
from interleave_thinker.training.dpo.pairs.sampling import SampledPairs
from interleave_thinker.training.dpo.settings import DpoTraining, split_pairs
from interleave_thinker.training.dpo.task import CriticPairs
from interleave_thinker.training.dpo.train import train as prefer
from interleave_thinker.training.gate.held_out import greedy_answers
from interleave_thinker.training.gate.monitored_run import TrainingData
from interleave_thinker.training.grpo.critic_task import CriticTask
from interleave_thinker.training.reward.critic_reward import RewardSettings, RewardSetup
from interleave_thinker.training.reward.redraws.drawing_settings import DrawingSettings
from interleave_thinker.training.reward.rollout_reward import RolloutReading
from interleave_thinker.training.sft.data import SftData
from interleave_thinker.training.sft.settings import SftTraining
from interleave_thinker.training.sft.train import train as fine_tune
from interleave_thinker.training.statistics.bootstrap import OF_DIFFERENCES, stratified_means
from interleave_thinker.training.statistics.intervals import share
from interleave_thinker.training.trainer.step_clock import StepClock

TOKENS, SEED = 320, 4


def task() -> CriticTask:
    """Return the reward of critic-grpo, exact in the tiny world; rejected correct images are redrawn too."""
    terms, drawing = RewardSettings(redraw="refused"), DrawingSettings()
    return CriticTask(RewardSetup(open_generator("tinyworld"), open_scorer("tinyworld"), terms, drawing))


def measured(model: Path, rows: list[CriticRlRow], images: Path, out: Path) -> list[dict[str, Any]]:
    """Return each row's greedy answer with its rewards."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    prompt_set = prompt_set_of(model)
    assert isinstance(prompt_set, PromptSet)
    asked = [as_question(row, images, out / "shown", prompt_set) for row in rows]
    processor = AutoProcessor.from_pretrained(model, local_files_only=True)
    agent = AutoModelForImageTextToText.from_pretrained(model, local_files_only=True, dtype="float32")
    answers, tokens = greedy_answers(agent, processor, asked, TOKENS, 50)
    reward = task().reward(out, RolloutReading(images, str, prompt_set.verdict_first), out, StepClock())
    samples, _ = asyncio.run(reward.judged(answers, rows))
    return [{**one.model_dump(), "tokens": length} for one, length in zip(samples, tokens, strict=True)]


def summary(found: list[dict[str, Any]], start: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one critic, and its reward minus that of the start, row by row."""
    right = {
        truth: [one["accuracy"] == 1.0 for one in found if one["truth"] is truth] for truth in (True, False)
    }
    pairs = [(one["overall"], old["overall"]) for one, old in zip(found, start, strict=True)]
    gains = [one - old for one, old in pairs if one is not None and old is not None]
    redrawn = [one["semantic"] for one in found if one["redrawn"] and one["semantic"] is not None]
    return {
        "right verdicts": share([*right[True], *right[False]]).model_dump(),
        "right images accepted": share(right[True]).model_dump(),
        "wrong images refused": share(right[False]).model_dump(),
        "reward": sum(one["overall"] or 0.0 for one in found) / len(found),
        "reward less start": stratified_means({"": gains}, bounds=OF_DIFFERENCES).items.model_dump(),
        "semantic where redrawn": sum(redrawn) / max(1, len(redrawn)),
        "tokens": sum(one["tokens"] for one in found) / len(found),
    }


def main() -> None:
    """Create the data, train both critics, measure all three."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--critic",
        type=Path,
        default=checkpoint("critic"),
        help="starting critic, such as seed_1/critic/final",
    )
    parser.add_argument("--rows", type=int, default=240)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--asked", type=int, default=200)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=3e-5)
    options = parser.parse_args()
    out, began, start = options.out, time.monotonic(), options.critic
    files = {}
    pipeline = open_generator("tinyworld").pipeline  # type: ignore[attr-defined]
    for name, count, seed in (("learned", options.rows, SEED), ("asked", options.asked, SEED + 1)):
        files[name] = out / name / "critic_rl.jsonl"
        if not files[name].is_file():
            make_rl(out / name, pipeline, count, seed)
    learned, asked = (read_rl_rows(files[name])[0] for name in ("learned", "asked"))
    how = {"samples": options.samples, "temperature": 1.4, "sample_batch": 64}
    how |= {"max_completion_length": TOKENS}
    log = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    path = out / "pairs" / "critic_pairs.jsonl"
    if not path.is_file():
        maker = PairMaker(start, task(), SampledPairs(**how, device="cpu"), log)
        maker.make(SampledRows(learned, files["learned"].parent), out / "pairs")
    rows, held = split_pairs(read_critic_pairs(path)[0], 24)
    shared: dict[str, Any] = {
        "learning_rate": options.rate,
        "num_train_epochs": options.epochs,
        "per_device_train_batch_size": 16,
        "gradient_accumulation_steps": 1,
    }
    shared |= {"warmup_steps": 0.05, "weight_decay": 0.01, "freeze_vision": False, "device": "cpu"}
    shared |= {"save_steps": 1000, "tensorboard": False}
    checks = {"check_rows": 24, "check_batch": 24, "max_completion_length": TOKENS, "collapse_threshold": 0.0}
    settings = DpoTraining(**shared, **checks, sft_loss_weight=0.1)
    data = TrainingData(rows, held, path.parent)
    dpo = prefer(start, data, out / "dpo", settings, CriticPairs(), log)
    chosen = SftData(RowSet([row.answered(row.chosen) for row in rows], path.parent))
    sft = SftTraining(**shared, samples=0)
    best = fine_tune(start, chosen, out / "best_sft", sft, prompt_set_of(start), log)
    found = {
        name: measured(model, asked, files["asked"].parent, out / "work")
        for name, model in (("start", start), ("dpo", dpo), ("best_sft", best))
    }
    result = {name: summary(ones, found["start"]) for name, ones in found.items()}
    told = {
        "pairs": len(rows),
        "seconds": round(time.monotonic() - began),
        **vars(options),
        "out": str(out),
        "critic": start.name,
    }
    print(json.dumps({"settings": told, **result}, indent=1))


if __name__ == "__main__":
    main()

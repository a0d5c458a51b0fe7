"""Reinforcement learning of the critic with trl's GRPO trainer: two images a question, one redraw a refined
prompt, one reward.

Decisions. The trainer is trl's, used as it is; ours are the reward (critic_reward.py), the settings that make
its batches come out even, the guards (callbacks.py), and the checkpoint that comes out. Everything is counted
in rollouts: one is `prompts` groups of `group` answers, drawn, scored and learned from in `updates` optimiser
steps; checkpoints and checks fall on whole rollouts only, because a run that is stopped within one goes on
with other answers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ...backend.checkpoints.checkpoint import checkpoint_digest
from ...backend.errors import TrainingError
from ...backend.files.bounded_reader import read_json
from ...backend.generators import Generator
from ...backend.prompts import PromptSet, default_prompt_set, prompt_set_of
from ...backend.scorers import Scorer
from ..evaluation.held_out import Check, CheckLog, greedy_answers, summarise
from ..reward.cache import RewardCache
from ..reward.critic_reward import CriticReward, RewardSettings
from ..reward.redraw import DrawingSettings, Redrawer
from ..rows.lengths import fitting
from ..rows.rl import CriticRlRow, as_question, as_questions, shown_of
from ..trainer.html_report import write_report
from ..trainer.policy import check_options, counts, load_policy, load_processor, quiet, reports_to
from ..trainer.progress_line import GRPO_PARTS
from ..trainer.requirements import require
from ..trainer.resume import claim_run, digest_of, logged, newest_checkpoint, step_of
from ..trainer.saving import save_trained
from ..trainer.step_clock import StepClock
from .report import answered, held_out_curves
from .settings import FREE_TO_CHANGE, GrpoTraining, batches, check_rows_of, rollouts_of, vllm_arguments

RESULT_FILE = "result.json"


def train(
    checkpoint: Path,
    rows: Sequence[CriticRlRow],
    held_out: Sequence[CriticRlRow],
    images: Path,
    out: Path,
    settings: GrpoTraining,
    reward: RewardSettings,
    drawing: DrawingSettings,
    generator: Generator,
    scorer: Scorer,
    cache: Path | None = None,
    log: Callable[[str], None] = print,
    engine: type[Redrawer] = Redrawer,
    skip_bad: bool = False,
) -> Path:
    """Train the critic in `checkpoint` on `rows` (image paths relative to `images`) into `out`; continues a
    stopped run.

    `cache` is the file of drawn and scored images, `out / "rewards.sqlite"` if None; `engine` draws and
    scores. Returns `out / "final"`: a model, or an adapter if a LoRA rank is set. Raises SettingsError, also
    for a row that cannot be shown or is longer than `settings.prompt_tokens` unless `skip_bad` leaves such
    rows out, and TrainingError for a training that had to stop; the last good checkpoint is then in `out /
    "final"` if there is one.
    """
    check_options(settings)
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    batches(settings, devices)
    if vllm_arguments(settings, devices):
        require("vllm")
    if reward.published_quirks:
        require("json_repair")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    final = out / "final"
    claim_run(out, _made_of(checkpoint, rows, held_out, settings, reward, generator, scorer))
    if final.is_dir():
        return _finished(out, log)
    with quiet():
        return _train(
            checkpoint,
            rows,
            held_out,
            images,
            out,
            settings,
            reward,
            engine(generator, scorer, RewardCache(cache or out / "rewards.sqlite"), drawing),
            log,
            skip_bad,
        )


def _train(
    checkpoint: Path,
    rows: Sequence[CriticRlRow],
    held_out: Sequence[CriticRlRow],
    images: Path,
    out: Path,
    settings: GrpoTraining,
    reward: RewardSettings,
    redrawing: Redrawer,
    log: Callable[[str], None],
    skip_bad: bool,
) -> Path:
    final = out / "final"
    from transformers import PrinterCallback

    from ..trainer.callbacks import Progress, Stopwatch
    from .guard import CriticGuard
    from .trainer import CriticTrainer, config_of

    devices = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    prompt_set = prompt_set_of(checkpoint) or default_prompt_set()
    rows, held_out = _usable(
        rows, held_out, images, load_processor(checkpoint), prompt_set, settings, skip_bad, log
    )
    steps_in_all = rollouts_of(settings, len(rows)) * settings.updates
    every = settings.save_every * settings.updates
    steps = out / "steps"
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(out / "tensorboard")
    config = config_of(settings, steps, steps_in_all, devices, reports_to(settings, log))
    policy = load_policy(checkpoint, settings)
    questions = as_questions(rows, images, out / "shown", prompt_set, settings.image_pixels)
    asked = [as_question(row, images, out / "shown", prompt_set, settings.image_pixels) for row in held_out]
    clock = StepClock()
    judge = CriticReward(
        redrawing,
        images,
        reward,
        lambda ids: policy.processor.tokenizer.decode(list(ids), skip_special_tokens=True),
        settings.seed,
        out / "rollouts" / (f"rank_{rank}" if devices > 1 else ""),
        clock,
        prompt_set.verdict_first,
    )

    trainer = CriticTrainer(
        judge,
        model=policy.model,
        args=config,
        train_dataset=questions,
        processing_class=policy.processor,
        peft_config=policy.adapter,
    )
    trained, whole = counts(trainer.model)
    log(
        f"{trained:,} of {whole:,} weights train; {steps_in_all // settings.updates} rollouts of "
        f"{settings.prompts} x {settings.group}"
    )

    def check() -> Check:
        with _gathered(trainer) as model:
            answers, lengths = greedy_answers(
                model, policy.processor, asked, settings.answer_tokens, settings.check_batch
            )
        return _told_by_first(summarise(held_out, answers, lengths, prompt_set.verdict_first), devices)

    checks = CheckLog(out)
    guard = CriticGuard(check, checks, every, settings.floor, judge, log, _agreed(devices))
    trainer.measured += [clock.taken, guard.taken]
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Stopwatch(clock))
    trainer.add_callback(guard)
    trainer.add_callback(Progress(log, GRPO_PARTS))
    resumed = newest_checkpoint(steps)
    kept = resumed if resumed and step_of(resumed) >= steps_in_all else None
    if kept is None:
        trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
    good = newest_checkpoint(steps)
    history = trainer.state.log_history or logged(good)
    if guard.outage is not None:
        raise TrainingError(
            f"Training stopped: {guard.outage}",
            f"Mend that and run the same command: it goes on from step {step_of(good) if good else 0}.",
        )
    stopped = guard.stopped
    if stopped is not None:
        if good is None:
            raise TrainingError(
                f"Training stopped: {stopped}.", "There is no checkpoint yet that could be kept."
            )
        kept = good
        log(f"keeping step {step_of(good)}, the last good checkpoint")
    if trainer.accelerator.is_main_process:
        notes = [
            f"{trained:,} of {whole:,} weights trained",
            f"{len(rows)} rows, {steps_in_all} steps planned",
        ]
        answers = answered(held_out, asked, checks)
        write_report(
            out,
            "The critic's reinforcement learning",
            history,
            held_out_curves(checks),
            answers,
            notes,
            stopped,
        )
        result = {"stopped": stopped, "steps": steps_in_all}
        (out / RESULT_FILE).write_text(json.dumps(result) + "\n", encoding="utf-8")
    save_trained(trainer, policy.processor, prompt_set, final, settings.half, kept)
    if stopped is not None:
        raise TrainingError(
            f"Training stopped: {stopped}.", f"The last good checkpoint is in {str(final)!r}."
        )
    return final


def _usable(
    rows: Sequence[CriticRlRow],
    held_out: Sequence[CriticRlRow],
    images: Path,
    processor: Any,
    prompt_set: PromptSet,
    settings: GrpoTraining,
    skip_bad: bool,
    log: Callable[[str], None],
) -> tuple[list[CriticRlRow], list[CriticRlRow]]:
    """The rows to train on and to check on that can be shown; raises SettingsError for another one unless
    `skip_bad`."""

    def usable(some: Sequence[CriticRlRow], which: str = "") -> list[CriticRlRow]:
        shown = [shown_of(row, images, prompt_set, settings.image_pixels) for row in some]
        limit = settings.prompt_tokens
        return fitting(some, shown, processor, limit, "--prompt-tokens", skip_bad, log, which)

    trained, held = usable(rows), usable(held_out, "held-out ")
    return trained, held if len(held) == len(held_out) else check_rows_of(held, settings)


def _told_by_first(check: Check, devices: int) -> Check:
    """The check of the first rank, so that all decide alike."""
    if devices == 1:
        return check
    from accelerate.utils import broadcast_object_list

    return broadcast_object_list([check])[0]


def _agreed(devices: int) -> Callable[[str | None], str | None]:
    """A function that gives every rank the first problem that any of them has."""
    if devices == 1:
        return lambda problem: problem
    from accelerate.utils import gather_object

    return lambda problem: next((one for one in gather_object([problem]) if one is not None), None)


def _finished(out: Path, log: Callable[[str], None]) -> Path:
    """The result of a training that ended before; raises TrainingError again if it had to stop."""
    result = read_json(out / RESULT_FILE, TrainingError, "Result")
    stopped = result.get("stopped") if isinstance(result, dict) else None
    if stopped:
        raise TrainingError(
            f"This training stopped: {stopped}.", f"The last good checkpoint is in {str(out / 'final')!r}."
        )
    log("this training is finished")
    return out / "final"


def _made_of(
    checkpoint: Path,
    rows: Sequence[CriticRlRow],
    held_out: Sequence[CriticRlRow],
    settings: GrpoTraining,
    reward: RewardSettings,
    generator: Generator,
    scorer: Scorer,
) -> dict[str, Any]:
    return {
        "stage": "critic-grpo",
        "model": checkpoint_digest(checkpoint),
        "rows": digest_of(row.model_dump_json() for row in rows),
        "held_out": digest_of(row.model_dump_json() for row in held_out),
        "generator": generator.identity,
        "scorer": scorer.identity,
        **settings.model_dump(mode="json", exclude=FREE_TO_CHANGE),
        **reward.model_dump(mode="json"),
    }


def _gathered(trainer: Any) -> Any:
    """The model as one that can generate, whatever it is distributed over."""
    from trl.models.utils import unwrap_model_for_generation

    if trainer.accelerator.num_processes == 1:
        return nullcontext(trainer.accelerator.unwrap_model(trainer.model))
    return unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator)

"""Supervised fine-tuning of planner and critic with trl's SFTTrainer: loss on the answer alone, several
images a row.

Decisions. The trainer is trl's, used as it is; ours are the checks before it starts and the checkpoint that
comes out (half precision if asked, prompt set beside the weights). Rows are measured in real tokens, image
tokens included, before a model is loaded, because the trainer would cut an answer off without a word. Images
are shown at the size at which the running agents show them. The answers on the end page are to rows that are
not trained on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field

from ...backend.checkpoints.checkpoint import checkpoint_digest
from ...backend.errors import TrainingError
from ...backend.prompts import PromptSet
from ..rows.lengths import fitting, shown_of
from ..rows.row_sets import RowSet
from ..rows.sft import SftRow, as_dataset
from ..trainer.html_report import write_report
from ..trainer.policy import (
    ModelTraining,
    arguments,
    check_options,
    counts,
    load_policy,
    load_processor,
    quiet,
    reports_to,
)
from ..trainer.progress_line import SFT_PARTS
from ..trainer.resume import claim_run, digest_of, logged, newest_checkpoint, step_of
from ..trainer.saving import save_trained
from .answers import AnswerCache, answered, hold_out, sampled
from .collator import IGNORED, Shown

FREE_TO_CHANGE = {"device", "save_every", "workers", "tensorboard", "half", "samples", "sample_tokens"}
SHOWN_TOKENS = 24
FINAL = "final"
"""Folder of a finished checkpoint, from which it is used."""


class SftTraining(ModelTraining):
    """Settings of supervised fine-tuning. The published runs are in the recipe paper-8b."""

    epochs: float = Field(default=2.0, gt=0, description="Passes over the data.")
    batch: int = Field(default=32, ge=1, description="Rows in one forward pass on one device.")
    accumulation: int = Field(default=1, ge=1, description="Such batches per optimiser step.")
    cutoff: int = Field(
        default=16384, ge=16, description="Longest row in tokens, images included; longer ones are an error."
    )
    ordered: bool = Field(default=False, description="Take the rows as the file has them (a curriculum).")
    save_every: int = Field(default=500, ge=1, description="Steps between resumable checkpoints.")
    workers: int = Field(default=0, ge=0, description="Processes that read and prepare images.")
    samples: int = Field(
        default=4,
        ge=0,
        le=50,
        description=(
            "Rows that are not trained on and whose answers before and after are shown on the end page."
        ),
    )
    sample_tokens: int = Field(default=1024, ge=16, description="Longest such answer, in tokens.")


def train(
    checkpoint: Path,
    rows: list[SftRow],
    images: Path,
    out: Path,
    settings: SftTraining,
    prompt_set: PromptSet | None = None,
    log: Callable[[str], None] = print,
    skip_bad: bool = False,
    name: str = FINAL,
    held_out: RowSet | None = None,
) -> Path:
    """Fine-tune `checkpoint` on `rows` (image paths relative to `images`) into `out`; continues a stopped
    run.

    The page's answers are to rows of `held_out`; without any, to a few of `rows` that are then not trained
    on. Returns the finished checkpoint's folder, `out / name`: a model, or an adapter if a LoRA rank is set.
    Raises SettingsError for a row that cannot be shown or is longer than the cutoff, unless `skip_bad` leaves
    such rows out; TrainingError if `out` holds another training.
    """
    check_options(settings)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    final = out / name
    if held_out is None:
        rows, spared = hold_out(rows, settings.samples)
        held_out = RowSet(spared, images)
    claim_run(
        out,
        {
            "stage": "sft",
            "model": checkpoint_digest(checkpoint),
            "rows": digest_of(row.line() for row in rows),
            **settings.model_dump(mode="json", exclude=FREE_TO_CHANGE),
        },
    )
    if final.is_dir():
        log("this training is finished")
        return final
    with quiet():
        return _train(checkpoint, rows, images, final, settings, prompt_set, log, skip_bad, held_out)


def steps_in_all(settings: SftTraining, rows: int, devices: int = 1) -> int:
    """Optimiser steps of a training on so many rows."""
    an_epoch = math.ceil(math.ceil(rows / (settings.batch * devices)) / settings.accumulation)
    return math.ceil(an_epoch * settings.epochs)


def _train(
    checkpoint: Path,
    rows: list[SftRow],
    images: Path,
    final: Path,
    settings: SftTraining,
    prompt_set: PromptSet | None,
    log: Callable[[str], None],
    skip_bad: bool,
    held_out: RowSet,
) -> Path:
    out = final.parent
    from torch.utils.data import SequentialSampler
    from transformers import PrinterCallback
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    from ..trainer.callbacks import Progress

    steps = out / "steps"
    measured = [shown_of(row, images, settings.image_pixels) for row in rows]
    processor = load_processor(checkpoint)
    rows = fitting(rows, measured, processor, settings.cutoff, "--cutoff", skip_bad, log)
    asked = list(held_out.rows[: settings.samples])
    if asked:
        measured = [shown_of(row, held_out.folder, settings.image_pixels) for row in asked]
        asked = fitting(asked, measured, processor, settings.cutoff, "--cutoff", skip_bad, log, "held-out ")
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    whole_steps = steps_in_all(settings, len(rows), devices)
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(out / "tensorboard")
    config = SFTConfig(
        **arguments(settings, steps, whole_steps),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulation,
        lr_scheduler_type="cosine",
        max_length=None,
        dataloader_num_workers=settings.workers,
        logging_steps=max(1, min(20, int(whole_steps / 10))),
        save_steps=settings.save_every,
        report_to=reports_to(settings, log),
    )
    policy = load_policy(checkpoint, settings)

    class Ordered(SFTTrainer):
        def _get_train_sampler(self, *arguments: Any, **options: Any) -> Any:
            if settings.ordered:
                return SequentialSampler(self.train_dataset)  # pyright: ignore[reportArgumentType]
            return super()._get_train_sampler(*arguments, **options)

    trainer = Ordered(
        model=policy.model,
        args=config,
        train_dataset=as_dataset(rows, images),
        processing_class=policy.processor,
        peft_config=policy.adapter,
    )
    trainer.data_collator = Shown(trainer.data_collator, settings.image_pixels, policy.processor.tokenizer)
    trained, whole = counts(trainer.model)
    log(f"{trained:,} of {whole:,} weights train on {len(rows)} rows in {whole_steps} steps")
    log(_learned(trainer, policy.processor))
    shown = (
        sum(len(row.images) for row in rows) / len(rows) * settings.batch * settings.accumulation * devices
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Progress(log, SFT_PARTS, shown))
    resumed = newest_checkpoint(steps)
    asked = asked if devices == 1 else []
    kept = AnswerCache(out / "before.json")
    before: list[str] = []
    if asked:  # where there are several processes nobody is asked, and they must not write one file at once
        before = (
            kept.read()
            if resumed
            else kept.keep(sampled(trainer, policy.processor, asked, held_out.folder, settings.sample_tokens))
        )
    finished = resumed if resumed and step_of(resumed) >= whole_steps else None
    if finished is None:
        trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
    elif devices == 1:
        trainer._load_from_checkpoint(str(resumed))
    if trainer.accelerator.is_main_process:
        after = sampled(trainer, policy.processor, asked, held_out.folder, settings.sample_tokens)
        notes = [f"{trained:,} of {whole:,} weights trained", f"{len(rows)} rows, {whole_steps} steps"]
        if asked:
            notes.append(f"The {len(asked)} answers below are to rows that were not trained on.")
        if len(before) != len(after):
            before = ["(not kept)"] * len(after)
        answers = answered(asked, held_out.folder, before, after)
        history = trainer.state.log_history or logged(resumed)
        write_report(out, "Supervised fine-tuning", history, {}, answers, notes)
    return save_trained(trainer, policy.processor, prompt_set, final, settings.half, finished)


def _learned(trainer: Any, processor: Any) -> str:
    """What the trainer makes of the first row, counted: its tokens, those of images, those that are learned,
    and their end.

    Raises TrainingError if images or the answer are lost on the way, which the trainer itself would pass over
    in silence.
    """
    row = trainer.train_dataset[0]
    pictures = len(row["images"])
    batch = trainer.data_collator([row])
    ids, labels = batch["input_ids"][0], batch["labels"][0]
    seen = int((ids == processor.image_token_id).sum())
    learned = ids[labels != IGNORED]
    if (pictures and not seen) or not len(learned) or (learned == processor.image_token_id).any():
        raise TrainingError(
            (
                f"Of the first row's {len(ids)} tokens {seen} are of its {pictures} images and "
                f"{len(learned)} "
                f"are learned."
            ),
            "The checkpoint's chat template does not go with it.",
        )
    end = processor.tokenizer.decode(learned[-SHOWN_TOKENS:])
    return (
        f"of the first row's {len(ids)} tokens {seen} are of images and {len(learned)} are learned, "
        f"...{end!r}"
    )

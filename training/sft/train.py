"""Supervised fine-tuning of planner and critic with trl's SFTTrainer: loss on the answer alone, several
images a row.

Decisions. The trainer is trl's, used as it is; ours are the checks before it starts and the checkpoint that
comes out (half precision if asked, prompt set beside the weights). Rows are measured in real tokens, image
tokens included, before a model is loaded, because the trainer would cut an answer off silently. Images
are shown at the size at which the running agents show them. The answers on the end page are to rows that are
not trained on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from ...backend.checkpoints.checkpoint import checkpoint_digest
from ...backend.errors import TrainingError
from ...backend.prompts import PromptSet
from ..rows.conversations import as_dataset
from ..rows.lengths import TokenLimit, fitting, shown_of
from ..rows.row_sets import RowSet
from ..trainer.html_report import TrainingReport
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

FREE_TO_CHANGE = {
    "device",
    "save_every",
    "workers",
    "tensorboard",
    "report_to",
    "half",
    "samples",
    "sample_tokens",
}
SHOWN_TOKENS = 24
FINAL = "final"
"""Folder of a finished checkpoint, from which it is used."""

Log = Callable[[str], None]


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


@dataclass(frozen=True)
class SftData:
    """The rows of a fine-tuning, those whose answers its page shows, and the name of its result's folder.

    Without `held_out` rows a few of `rows` are shown, and not trained on. Rows that cannot be used are left
    out if `skip_bad`, else an error."""

    rows: RowSet
    held_out: RowSet | None = None
    skip_bad: bool = False
    name: str = FINAL

    @property
    def shown(self) -> RowSet:
        """The rows whose answers the page shows."""
        return self.held_out or RowSet([], self.rows.folder)

    def with_shown(self, samples: int) -> SftData:
        """The same data, with up to `samples` rows held out if none are yet."""
        if self.held_out is not None:
            return self
        rows, spared = hold_out(self.rows.rows, samples)
        folder = self.rows.folder
        return replace(self, rows=RowSet(rows, folder), held_out=RowSet(spared, folder))


def train(
    checkpoint: Path,
    data: SftData,
    out: Path,
    settings: SftTraining,
    prompt_set: PromptSet | None = None,
    log: Log = print,
) -> Path:
    """Fine-tune `checkpoint` on the rows into `out`; continues a stopped run.

    `prompt_set` is saved with the result. Returns the finished checkpoint's folder, `out / data.name`:
    a model, or an adapter if a LoRA rank is set. Raises SettingsError for a row that cannot be shown or is
    longer than the cutoff, unless such rows are skipped; TrainingError if `out` holds another training.
    """
    check_options(settings)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    data = data.with_shown(settings.samples)
    claim_run(
        out,
        {
            "stage": "sft",
            "model": checkpoint_digest(checkpoint),
            "rows": digest_of(row.line() for row in data.rows.rows),
            **settings.model_dump(mode="json", exclude=FREE_TO_CHANGE),
        },
    )
    final = out / data.name
    if final.is_dir():
        log("this training is finished")
        return final
    with quiet():
        return _FineTuning(checkpoint, data, out, settings, prompt_set, log).run()


def steps_in_all(settings: SftTraining, rows: int, devices: int = 1) -> int:
    """Optimiser steps of a training on so many rows."""
    an_epoch = math.ceil(math.ceil(rows / (settings.batch * devices)) / settings.accumulation)
    return math.ceil(an_epoch * settings.epochs)


@dataclass(frozen=True)
class _FineTuning:
    """One fine-tuning under way: what `train` was given, and the parts of it in their order."""

    checkpoint: Path
    data: SftData
    out: Path
    settings: SftTraining
    prompt_set: PromptSet | None
    log: Log

    @property
    def devices(self) -> int:
        return int(os.environ.get("WORLD_SIZE", "1"))

    def run(self) -> Path:
        rows, shown = self._usable()
        whole_steps = steps_in_all(self.settings, len(rows.rows), self.devices)
        trainer, processor = self._trainer(rows, whole_steps)
        trained, whole = counts(trainer.model)
        self.log(f"{trained:,} of {whole:,} weights train on {len(rows.rows)} rows in {whole_steps} steps")
        self.log(_learned(trainer, processor))
        resumed = newest_checkpoint(self.out / "steps")
        before = self._answers_before(trainer, processor, shown, resumed)
        finished = resumed if resumed and step_of(resumed) >= whole_steps else None
        if finished is None:
            trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
        elif self.devices == 1:
            trainer._load_from_checkpoint(str(resumed))
        if trainer.accelerator.is_main_process:
            notes = [
                f"{trained:,} of {whole:,} weights trained",
                f"{len(rows.rows)} rows, {whole_steps} steps",
            ]
            after = sampled(trainer, processor, shown, self.settings.sample_tokens)
            if shown.rows:
                notes.append(f"The {len(shown.rows)} answers below are to rows that were not trained on.")
            if len(before) != len(after):
                before = ["(not stored)"] * len(after)
            TrainingReport(
                title="Supervised fine-tuning",
                history=trainer.state.log_history or logged(resumed),
                answers=answered(shown, before, after),
                notes=notes,
            ).write(self.out)
        final = self.out / self.data.name
        return save_trained(trainer, processor, self.prompt_set, final, self.settings.half, finished)

    def _usable(self) -> tuple[RowSet, RowSet]:
        """The rows to train on and those whose answers are shown, each short enough; where there are several
        processes nobody is asked."""
        processor = load_processor(self.checkpoint)
        limit = TokenLimit(self.settings.cutoff, "--cutoff", self.data.skip_bad)

        def usable(rows: RowSet, which: str = "") -> RowSet:
            measured = [shown_of(row, rows.folder, self.settings.image_pixels) for row in rows.rows]
            return RowSet(fitting(rows.rows, measured, processor, limit, self.log, which), rows.folder)

        shown = RowSet(self.data.shown.rows[: self.settings.samples], self.data.shown.folder)
        rows = usable(self.data.rows)
        if shown.rows:
            shown = usable(shown, "held-out ")
        return rows, shown if self.devices == 1 else RowSet([], shown.folder)

    def _trainer(self, rows: RowSet, whole_steps: int) -> tuple[Any, Any]:
        """The trainer, ready to start, and the processor."""
        from transformers import PrinterCallback
        from trl.trainer.sft_config import SFTConfig

        from ..trainer.callbacks import Progress
        from .trainer import RowTrainer

        settings = self.settings
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(self.out / "tensorboard")
        config = SFTConfig(
            **arguments(settings, self.out / "steps", whole_steps),
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=settings.batch,
            gradient_accumulation_steps=settings.accumulation,
            lr_scheduler_type="cosine",
            max_length=None,
            dataloader_num_workers=settings.workers,
            logging_steps=max(1, min(20, int(whole_steps / 10))),
            save_steps=settings.save_every,
            report_to=reports_to(settings, self.log),
        )
        policy = load_policy(self.checkpoint, settings)
        trainer = RowTrainer(
            ordered=settings.ordered,
            model=policy.model,
            args=config,
            train_dataset=as_dataset(rows.rows, rows.folder),
            processing_class=policy.processor,
            peft_config=policy.adapter,
        )
        tokenizer = policy.processor.tokenizer
        trainer.data_collator = Shown(trainer.data_collator, settings.image_pixels, tokenizer)
        images = sum(len(row.images) for row in rows.rows) / len(rows.rows)
        a_step = settings.batch * settings.accumulation * self.devices
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Progress(self.log, SFT_PARTS, images * a_step))
        return trainer, policy.processor

    def _answers_before(self, trainer: Any, processor: Any, shown: RowSet, resumed: Path | None) -> list[str]:
        """The answers before the first step; a training that goes on reads them from its file."""
        if not shown.rows:
            return []
        stored = AnswerCache(self.out / "before.json")
        if resumed:
            return stored.read()
        return stored.write(sampled(trainer, processor, shown, self.settings.sample_tokens))


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
                "are learned."
            ),
            "The checkpoint's chat template does not go with it.",
        )
    end = processor.tokenizer.decode(learned[-SHOWN_TOKENS:])
    return (
        f"of the first row's {len(ids)} tokens {seen} are of images and {len(learned)} are learned, "
        f"...{end!r}"
    )

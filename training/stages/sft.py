"""Supervised fine-tuning of planner and critic with trl: loss on the answer only, several images per row.

Before the model is loaded, rows are measured in tokens, image tokens included, because the trainer would
silently truncate answers. Images are shown at the same size as by the running agents. The final checkpoint
contains the prompt set and, if requested, weights in half precision. The held-out loss and what follows from
it are computed from the trainer's own log, which is part of every checkpoint, so that a training that is
interrupted after deciding to stop decides the same when it is resumed. The rows of the regression gate are
not among the measured ones: the measured loss chooses the checkpoint, and the gate's rows must not influence
that choice.

Settings that were added later default to None, so that a training that was started before they existed can
be resumed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...backend.core.errors import SettingsError, TrainingError
from ...backend.core.prompts.agent_card import Role
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.types.values import DIRECT
from ...backend.output.sft_rows import SftRow
from ..rows.lengths import TokenLimit, fitting, shown_of
from ..rows.sft import RowSet, as_dataset, label_counts, question_text
from ..trainer.model_card import facts_of
from ..trainer.model_loading import (
    ModelTraining,
    check_options,
    count_parameters,
    load_policy,
    load_processor,
    trackers_of,
    trainer_arguments,
)
from ..trainer.progress import SFT_PARTS
from ..trainer.resume import (
    best_checkpoint,
    digest_of,
    is_to_stop,
    logged,
    measured_losses,
    newest_checkpoint,
    step_of,
)
from ..trainer.run import Log, Prepared, TrainingRun
from ..trainer.saving import Result, record_of, save_trained

FREE_TO_CHANGE = {
    "device",
    "save_steps",
    "dataloader_num_workers",
    "tensorboard",
    "report_to",
    "save_dtype",
}
"""Settings that may change when a training is resumed."""


class SftTraining(ModelTraining):
    """Settings of supervised fine-tuning (SFT). The published runs are in the recipe paper-8b."""

    num_train_epochs: float = Field(
        default=2.0, gt=0, description="Number of passes over the data.", json_schema_extra=DIRECT
    )
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="Stop after this many optimizer steps, at most those of the epochs. Default: the steps "
        "of the epochs.",
        json_schema_extra=DIRECT,
    )
    per_device_train_batch_size: int = Field(
        default=32, ge=1, description="Rows per forward pass and device.", json_schema_extra=DIRECT
    )
    gradient_accumulation_steps: int = Field(default=1, ge=1, description="Micro-batches per optimizer step.")
    max_length: int = Field(
        default=16384,
        ge=16,
        description="Maximum length of a row in tokens, images included. Longer rows are an error.",
    )
    save_steps: int = Field(default=500, ge=1, description="Optimizer steps between checkpoints.")
    dataloader_num_workers: int = Field(
        default=0, ge=0, description="Worker processes that load and prepare images."
    )
    train_sampling_strategy: Literal["random", "sequential"] = Field(
        default="random",
        description="Order of the rows: shuffled in each epoch, or as in the file (for a curriculum).",
    )
    loss_rows: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Held-out rows whose loss is measured at every checkpoint, from a planner's --held-out "
        "or else from the data (at most one row in 20). Default: none.",
    )
    early_stopping_patience: int | None = Field(
        default=None,
        ge=1,
        description="Stop after this many checkpoints without a lower held-out loss, and use the checkpoint "
        "with the lowest. Default: train to the end and use the last checkpoint.",
    )

    def optimizer_steps(self, rows: int, devices: int = 1) -> int:
        """Return the number of optimizer steps of a training on `rows` rows."""
        batches = math.ceil(rows / (self.per_device_train_batch_size * devices))
        steps = math.ceil(math.ceil(batches / self.gradient_accumulation_steps) * self.num_train_epochs)
        return min(steps, self.max_steps or steps)

    def rows_per_step(self, devices: int) -> int:
        """Return the number of rows of one optimizer step."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps * devices


MIN_ROWS_PER_HELD_OUT = 20
"""Number of training rows for each row that is held out."""
FINAL = "final"
"""Name of the folder of the finished checkpoint."""


@dataclass(frozen=True)
class SftData:
    """Rows of a fine-tuning and the name of its result's folder.

    Attributes:
        rows: Rows to train on.
        skip_bad: Leave out rows that cannot be used instead of raising an error.
        name: Name of the result's folder.
        measured: Rows whose loss is measured. Default: a few of `rows` if the settings ask for it, which are
            then not trained on.
        role: Job of the trained agent, for its card. `None` leaves it open.
    """

    rows: RowSet
    skip_bad: bool = False
    name: str = FINAL
    measured: RowSet | None = None
    role: Role | None = None

    @property
    def losses(self) -> RowSet:
        """Rows whose loss is measured."""
        return self.measured or RowSet([], self.rows.folder)

    def with_held_out(self, settings: SftTraining) -> SftData:
        """Return the same data, with the rows held out that the settings need and the caller did not give.

        Raises:
            SettingsError: Early stopping is set without rows to measure the loss on.
        """
        loss_rows = settings.loss_rows or 0
        if settings.early_stopping_patience and not loss_rows:
            raise SettingsError("early_stopping_patience needs a held-out loss.", "Set loss_rows as well.")
        folder, measured = self.rows.folder, self.measured
        rows, spared = hold_out(self.rows.rows, loss_rows if measured is None else 0)
        measured = measured or RowSet(spared, folder)
        measured = RowSet(measured.rows[:loss_rows], measured.folder)
        if settings.early_stopping_patience and not measured.rows:
            raise SettingsError(
                f"{len(self.rows.rows)} rows are too few to hold any out for early_stopping_patience.",
                "Give more rows, or omit the option.",
            )
        return replace(self, rows=RowSet(rows, folder), measured=measured)


def hold_out(rows: Sequence[SftRow], count: int) -> tuple[list[SftRow], list[SftRow]]:
    """Split the rows into (rows to train on, up to `count` rows to measure).

    Held-out rows are chosen by a hash of their content, together with every row that has the same question.
    At most one question in `MIN_ROWS_PER_HELD_OUT` is held out.
    """
    ordered = sorted({asked(row): row for row in rows}.items())
    held = dict(ordered[: min(count, len(ordered) // MIN_ROWS_PER_HELD_OUT)])
    return [row for row in rows if asked(row) not in held], list(held.values())


def asked(row: SftRow) -> str:
    """Return a digest of a row's question: all turns except the last, and the names of its images."""
    parts = "\0".join([question_text(row), *row.images])
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


SHOWN_TOKENS, MAX_QUESTION = 24, 4000


def train(
    checkpoint: Path,
    data: SftData,
    out: Path,
    settings: SftTraining,
    prompt_set: PromptSet | None = None,
    log: Log = print,
) -> Path:
    """Fine-tune `checkpoint` on the rows, into the folder `out`; resumes an interrupted training.

    Args:
        checkpoint: Folder of the model to start from.
        data: Rows to train on and to measure.
        out: Folder of the training.
        settings: Settings of the training.
        prompt_set: Prompt set that is saved with the result.
        log: Called with every line of progress.

    Returns:
        The finished checkpoint's folder, `out / data.name`: a model, or an adapter if a LoRA rank is set.

    Raises:
        SettingsError: A row cannot be shown or is longer than `settings.max_length`, and such rows are not
            skipped.
        TrainingError: `out` contains another training.
    """
    check_options(settings)
    return _FineTuning(checkpoint, data.with_held_out(settings), out, settings, prompt_set, log).carry_out()


@dataclass(frozen=True)
class _FineTuning(TrainingRun):
    """One fine-tuning: the arguments of `train`, and its stages in order."""

    checkpoint: Path
    data: SftData
    out: Path
    settings: SftTraining
    prompt_set: PromptSet | None
    log: Log

    @property
    def final(self) -> Path:
        return self.out / self.data.name

    def description(self) -> dict[str, Any]:
        known = {
            "stage": "sft",
            **self.settings.identity(self.checkpoint),
            "rows": digest_of(row.line() for row in self.data.rows.rows),
            **self.settings.model_dump(mode="json", exclude=FREE_TO_CHANGE | {"adapter"}),
        }
        if self.data.losses.rows:
            known["measured"] = digest_of(row.line() for row in self.data.losses.rows)
        return known

    def run(self) -> Path:
        rows, measured = self._usable()
        whole_steps = self.settings.optimizer_steps(len(rows.rows), self.devices)
        trainer, processor = self._trainer(rows, measured, whole_steps)
        trained, whole = count_parameters(trainer.model)
        self.log(
            f"training {trained:,} of {whole:,} parameters on {len(rows.rows)} rows in {whole_steps} steps"
        )
        if measured.rows:
            self.log(f"measuring the loss of {len(measured.rows)} held-out rows at every checkpoint")
        self.log(_learned(trainer, processor))
        record = record_of(self.out, self.prompt_set, self.settings.image_pixels, self.data.role)
        resumed = newest_checkpoint(self.out / "steps")
        finished = resumed if resumed and self._is_over(resumed, whole_steps) else None
        if finished is None:
            self.train_from(trainer, resumed, record)
        history = trainer.state.log_history or logged(resumed)
        chosen, facts = self._chosen(history) or finished, None
        if chosen is not None and self.devices == 1:
            trainer._load_from_checkpoint(str(chosen))
        if trainer.accelerator.is_main_process:
            notes = [
                f"{trained:,} of {whole:,} parameters trained",
                f"{len(rows.rows)} rows, {whole_steps} steps",
            ]
            done = step_of(chosen) if chosen else trainer.state.global_step
            notes += ending(history, whole_steps, chosen) + self.ending.note(done, whole_steps)
            sets = {"training rows": rows.rows, "rows whose loss was measured": measured.rows}
            used = [(name, len(some), digest_of(row.line() for row in some)) for name, some in sets.items()]
            about = "sft", self.data.role, self.checkpoint, used, [self.settings]
            notes += [f"{name}: {label_counts(some)}" for name, some in sets.items() if some]
            asked = question_text(rows.rows[0])[:MAX_QUESTION]
            facts = facts_of(*about, notes=tuple(notes), question=asked)
        result = Result(record, self.settings.save_dtype, chosen, facts)
        return save_trained(trainer, processor, self.final, result)

    def prepared(self) -> Prepared:
        rows, measured = self._usable()
        steps = self.settings.optimizer_steps(len(rows.rows), self.devices)
        trainer, processor = self._trainer(rows, measured, steps)
        self.log(_learned(trainer, processor))
        check = trainer.evaluate if measured.rows else None
        return Prepared(trainer, steps, check, steps // self.settings.save_steps)

    def _is_over(self, resumed: Path, whole_steps: int) -> bool:
        """Return whether the training is complete at this checkpoint."""
        losses = measured_losses(logged(resumed))
        over = self.ending.decided() or step_of(resumed) >= whole_steps
        return over or is_to_stop(losses, self.settings.early_stopping_patience)

    def _chosen(self, history: Sequence[Mapping[str, Any]]) -> Path | None:
        """Return the checkpoint that becomes the result, or None to use the weights in memory."""
        if self.settings.early_stopping_patience is None:
            return None
        best = best_checkpoint(self.out / "steps", measured_losses(history))
        if best is not None:
            self.log(f"using the checkpoint of step {step_of(best)}, which has the lowest held-out loss")
        return best

    def _usable(self) -> tuple[RowSet, RowSet]:
        """Return the rows to train on and to measure that are short enough."""
        processor = load_processor(self.checkpoint)
        limit = TokenLimit(self.settings.max_length, "max_length", self.data.skip_bad)

        def usable(rows: RowSet, which: str = "") -> RowSet:
            measured = [shown_of(row, rows.folder, self.settings.image_pixels) for row in rows.rows]
            return RowSet(fitting(rows.rows, measured, processor, limit, self.log, which), rows.folder)

        rows, measured = usable(self.data.rows), self.data.losses
        if measured.rows:
            measured = usable(measured, "measured ")
        return rows, measured

    def _trainer(self, rows: RowSet, measured: RowSet, whole_steps: int) -> tuple[Any, Any]:
        """Return the trainer, ready to start, and the processor."""
        from transformers import PrinterCallback
        from trl.trainer.sft_config import SFTConfig

        from ..trainer.callbacks import EndEarly, Progress
        from .sft_trainer import HeldOutLoss, MaskedImageCollator, RowTrainer

        settings = self.settings
        own: dict[str, Any] = {
            "max_steps": whole_steps if settings.max_steps else -1,
            "lr_scheduler_type": "cosine",
            "max_length": None,
            "logging_steps": max(1, min(20, int(whole_steps / 10))),
            "report_to": trackers_of(settings),
            **(_measuring(settings) if measured.rows else {}),
        }
        config = SFTConfig(**trainer_arguments(settings, SFTConfig, self.out / "steps", whole_steps) | own)
        policy = load_policy(self.checkpoint, settings)
        trainer = RowTrainer(
            ordered=settings.train_sampling_strategy == "sequential",
            model=policy.model,
            args=config,
            train_dataset=as_dataset(rows.rows, rows.folder),
            eval_dataset=as_dataset(measured.rows, measured.folder) if measured.rows else None,
            processing_class=policy.processor,
            peft_config=policy.adapter,
        )
        tokenizer = policy.processor.tokenizer
        trainer.data_collator = MaskedImageCollator(trainer.data_collator, settings.image_pixels, tokenizer)
        images = sum(len(row.images) for row in rows.rows) / len(rows.rows)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Progress(self.log, SFT_PARTS, images * settings.rows_per_step(self.devices)))
        trainer.add_callback(HeldOutLoss(self.log, settings.early_stopping_patience))
        trainer.add_callback(EndEarly(self.ending, self.log))
        return trainer, policy.processor


def _measuring(settings: SftTraining) -> dict[str, Any]:
    """Return the trainer's arguments for measuring the held-out loss at every checkpoint.

    `metric_for_best_model` makes the trainer keep the checkpoint with the lowest loss when it deletes old
    ones.
    """
    return {
        "eval_strategy": "steps",
        "eval_steps": settings.save_steps,
        "per_device_eval_batch_size": settings.per_device_train_batch_size,
        "prediction_loss_only": True,
        "metric_for_best_model": "eval_loss",
        "greater_is_better": False,
    }


def ending(history: Sequence[Mapping[str, Any]], whole_steps: int, chosen: Path | None) -> list[str]:
    """Return a note on how the training ended and which checkpoint was used, if a loss decided it."""
    losses = measured_losses(history)
    best = step_of(chosen) if chosen is not None else None
    if best is None or best not in losses:
        return []
    last = max(losses)
    ended = f"Stopped at step {last} of {whole_steps}" if last < whole_steps else "Trained to the end"
    return [f"{ended}; used step {best}, with a held-out loss of {losses[best]:.4f}"]


def _learned(trainer: Any, processor: Any) -> str:
    """Describe the first row as the trainer sees it: its tokens, and the end of its answer.

    Raises:
        TrainingError: Images or the answer are lost in the batch, which the trainer itself would not report.
    """
    from .sft_trainer import IGNORE_INDEX

    row = trainer.train_dataset[0]
    pictures = len(row["images"])
    batch = trainer.data_collator([row])
    ids, labels = batch["input_ids"][0], batch["labels"][0]
    seen = int((ids == processor.image_token_id).sum())
    learned = ids[labels != IGNORE_INDEX]
    if (pictures and not seen) or not len(learned) or (learned == processor.image_token_id).any():
        raise TrainingError(
            f"The first row has {len(ids)} tokens: {seen} for its {pictures} images, {len(learned)} learned. "
            "Its images or its answer are missing.",
            "The chat template does not fit the model; use the checkpoint's original chat template.",
        )
    end = processor.tokenizer.decode(learned[-SHOWN_TOKENS:])
    return (
        f"first row: {len(ids)} tokens, {seen} of them of images, {len(learned)} learned, ending in "
        f"...{end!r}"
    )

"""Preference training of planner and critic with trl's DPO trainer, on pairs of answers.

trl's trainer is used without changes to its algorithm. Added are checks before it starts, the monitor that
GRPO training has too (held-out answers at every checkpoint; the last good one is kept) and the format of the
final checkpoint. Rows are measured with both answers before the model is loaded. If the images of a pair were
lost, it would silently be trained on text alone, so the image tokens of the first pair are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...backend.chat.image_limits import MAX_PIXELS, scaled_down
from ...backend.errors import TrainingError
from ...backend.pictures import Picture
from ...backend.prompts.trained_with import TrainedWith
from ..data.rows.conversations import with_images
from ..data.rows.lengths import TokenLimit, fitting
from ..data.rows.preference import as_preference, shown_pair
from ..gate.checkpoint_selection import CheckpointSelection
from ..gate.monitored_run import MonitoredRun, Parts, TrainingData
from ..trainer.model_loading import (
    check_options,
    count_parameters,
    load_policy,
    load_processor,
    reports_to,
)
from ..trainer.report.html_report import Answered
from ..trainer.report.progress_line import DPO_PARTS
from ..trainer.run import Log
from ..trainer.steps.dry_run import Prepared
from .settings import FREE_TO_CHANGE, DpoTraining
from .task import Found, Pair, PairTask


def train(
    checkpoint: Path,
    data: TrainingData[Pair],
    out: Path,
    settings: DpoTraining,
    task: PairTask[Pair, Any],
    log: Log = print,
) -> Path:
    """Train the agent in `checkpoint` on the pairs with DPO; resumes an interrupted training in `out`.

    Returns:
        `out / "final"`: a model, or an adapter if a LoRA rank is set.

    Raises:
        SettingsError: The settings contradict each other, or a pair cannot be shown or is longer than
            `settings.max_length` and such pairs are not skipped.
        TrainingError: The training had to stop. The last good checkpoint, if there is one, is in `out /
            "final"`.
    """
    check_options(settings)
    return _PreferenceTraining(checkpoint, data, out, settings, task, log).carry_out()


@dataclass(frozen=True)
class _PreferenceTraining(MonitoredRun[Pair, Found]):
    """One preference training: the arguments of `train`, and its stages in order."""

    kind = "preference training"
    unit = "pairs"
    free_to_change = FREE_TO_CHANGE

    checkpoint: Path
    data: TrainingData[Pair]
    out: Path
    settings: DpoTraining
    task: PairTask[Pair, Found]
    log: Log

    @property
    def monitored(self) -> PairTask[Pair, Found]:
        return self.task

    def lines(self, rows: Sequence[Pair]) -> Iterable[str]:
        return (row.line() for row in rows)

    def answered(self, row: Pair, question: dict[str, Any], before: str, after: str) -> Answered:
        return self.task.answered(row, self.data.images, before, after)

    def train(self, parts: Parts, record: TrainedWith) -> None:
        super().train(parts, record)
        stopped = parts.selection.monitor.stopped is not None
        if not stopped and parts.trainer.state.global_step % self.settings.save_steps:
            parts.trainer.evaluate()

    def prepared(self) -> Prepared:
        made = super().prepared()

        def check() -> None:
            if made.check is not None:
                made.check()
            made.trainer.evaluate()

        return replace(made, check=check)

    def prepare(self) -> Parts:
        from transformers import PrinterCallback

        from ..trainer.callbacks import Progress
        from .trainer import PairTrainer, PairWatch, ShownPairs, config_of

        settings, task, images = self.settings, self.task, self.data.images
        rows, held_out = self._usable()
        steps = settings.optimizer_steps(len(rows), self.devices)
        config = config_of(settings, self.out / "steps", steps, reports_to(settings, self.log))
        policy = load_policy(self.checkpoint, settings)
        trainer = PairTrainer(
            model=policy.model,
            args=config,
            train_dataset=with_images([as_preference(row, images) for row in rows]),
            eval_dataset=with_images([as_preference(row, images) for row in held_out]),
            processing_class=policy.processor,
            peft_config=policy.adapter,
        )
        trainer.data_collator = ShownPairs(trainer.data_collator, settings.image_pixels)
        trained, whole = count_parameters(trainer.model)
        self.log(f"training {trained:,} of {whole:,} parameters on {len(rows)} pairs in {steps} steps")
        self.log(_first_row(trainer, policy.processor))
        asked = task.questions(held_out)
        questions = [self._question(row) for row in asked]
        watch = PairWatch(self.log, settings.beta)
        monitor, checks = self.monitor(trainer, policy.processor, asked, questions, watch)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(monitor)
        trainer.add_callback(watch)
        shown = sum(len(row.images) for row in rows) / len(rows)
        trainer.add_callback(Progress(self.log, DPO_PARTS, shown * settings.rows_per_step(self.devices)))
        notes = [
            f"{trained:,} of {whole:,} parameters trained",
            f"{len(rows)} pairs, {steps} steps planned; {len(held_out)} pairs held out",
        ]
        selection = CheckpointSelection(self.out, monitor, steps, self.log)
        return Parts(trainer, selection, checks, policy.processor, asked, questions, notes)

    def _question(self, row: Pair) -> dict[str, Any]:
        """Return a held-out question with its images at the size at which they are shown."""
        made = as_preference(row, self.data.images)
        area = min(self.settings.image_pixels, MAX_PIXELS)
        return {**made, "images": [scaled_down(Picture.open(path), area) for path in made["images"]]}

    def _usable(self) -> tuple[list[Pair], list[Pair]]:
        """Return the pairs to train on and to check on that can be shown with both answers."""
        processor = load_processor(self.checkpoint)
        limit = TokenLimit(self.settings.max_length, "--max-length", self.data.skip_bad)

        def usable(some: Sequence[Pair], which: str) -> list[Pair]:
            left = list(some)
            for number, answer in enumerate(("chosen", "rejected")):
                images, pixels = self.data.images, self.settings.image_pixels
                shown = [shown_pair(row, images, pixels)[number] for row in left]
                left = fitting(left, shown, processor, limit, self.log, f"{which}{answer} ")
            return left

        return usable(self.data.rows, ""), usable(self.data.held_out, "held-out ")


def _first_row(trainer: Any, processor: Any) -> str:
    """Describe the first pair as the trainer sees it: all tokens, image tokens, and those of either answer.

    Raises:
        TrainingError: Images or answers are lost in the batch, which the trainer itself would not report.
    """
    row = trainer.train_dataset[0]
    pictures = len(row["images"])
    batch = trainer.data_collator([row])
    ids, mask = batch["input_ids"], batch["completion_mask"]
    seen = int((ids[0] == processor.image_token_id).sum())
    chosen, rejected = (int(one.sum()) for one in mask)
    if bool(pictures) != bool(seen) or not chosen or not rejected:
        raise TrainingError(
            f"The first pair has {ids.shape[1]} tokens: {seen} for its {pictures} images, {chosen} of the "
            f"chosen and {rejected} of the rejected answer. Its images or an answer are missing.",
            "The chat template does not fit the model; use the checkpoint's original chat template.",
        )
    return (
        f"first pair: {ids.shape[1]} tokens, {seen} of them of images; chosen answer {chosen} tokens, "
        f"rejected answer {rejected} tokens"
    )

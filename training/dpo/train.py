"""Preference training of planner and critic with trl's DPO trainer: pairs of answers, the better one made
more likely than the worse.

Decisions. The trainer is trl's, used as it is; ours are the checks before it starts, the monitor that
reinforcement has too (held-out answers at every checkpoint, the last good one kept), and the checkpoint that
comes out. Rows are measured with either answer before a model is loaded. What is left out by a mistake in a
pair's images would be learned from words alone, so the first row is looked at: its image tokens are counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple

from ...backend.chat.image_limits import MAX_PIXELS, scaled_down
from ...backend.checkpoints.checkpoint import checkpoint_digest
from ...backend.errors import TrainingError
from ...backend.pictures import Picture
from ...backend.prompts import default_prompt_set, prompt_set_of
from ..data.rows.conversations import with_images
from ..data.rows.lengths import TokenLimit, fitting
from ..data.rows.preference import as_preference, shown_pair
from ..gate.checkpoint_selection import CheckpointSelection, ended
from ..gate.held_out import CheckLog, greedy_answers
from ..trainer.html_report import Answered, TrainingReport
from ..trainer.model_loading import (
    check_options,
    count_parameters,
    load_policy,
    load_processor,
    reports_to,
    silence_libraries,
)
from ..trainer.progress_line import DPO_PARTS
from ..trainer.ranks import agreed, gathered, of_first_rank
from ..trainer.resume import claim_run, digest_of, given_back_on_failure, logged
from ..trainer.run_description import digests, libraries, shown_settings
from ..trainer.saving import record_of, save_trained
from .settings import FREE_TO_CHANGE, DpoTraining, steps_of
from .task import Found, Pair, PairTask

Log = Callable[[str], None]


@dataclass(frozen=True)
class PairData(Generic[Pair]):
    """Pairs to train on and pairs to check on, with image paths relative to one folder. Those that cannot be
    used are left out if `skip_bad`, else an error."""

    rows: Sequence[Pair]
    held_out: Sequence[Pair]
    images: Path
    skip_bad: bool = False


def train(
    checkpoint: Path,
    data: PairData[Pair],
    out: Path,
    settings: DpoTraining,
    task: PairTask[Pair, Any],
    log: Log = print,
) -> Path:
    """Train the agent in `checkpoint` on the pairs into `out`; continues a stopped run.

    Returns `out / "final"`: a model, or an adapter if a LoRA rank is set. Raises SettingsError, also for a
    pair that cannot be shown or is longer than the cutoff unless such pairs are skipped, and TrainingError
    for a training that had to stop; the last good checkpoint is then in `out / "final"` if there is one.
    """
    check_options(settings)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    run = _PreferenceTraining(checkpoint, data, out, settings, task, log)
    claim_run(out, run.description())
    if run.final.is_dir():
        return ended(out, log)
    with given_back_on_failure(out), silence_libraries():
        return run.run()


class _Parts(NamedTuple):
    """What a training is put together from, for its steps and its end."""

    trainer: Any
    selection: CheckpointSelection
    checks: CheckLog[Any]
    processor: Any
    asked: list[Any]
    notes: list[str]


@dataclass(frozen=True)
class _PreferenceTraining(Generic[Pair, Found]):
    """One preference training under way: what `train` was given, and the parts of it in their order."""

    checkpoint: Path
    data: PairData[Pair]
    out: Path
    settings: DpoTraining
    task: PairTask[Pair, Found]
    log: Log

    @property
    def final(self) -> Path:
        return self.out / "final"

    @property
    def devices(self) -> int:
        return int(os.environ.get("WORLD_SIZE", "1"))

    def description(self) -> dict[str, Any]:
        """What this training is made of, by which a stopped one is known again."""
        return {
            "stage": self.task.stage,
            "model": checkpoint_digest(self.checkpoint),
            "rows": digest_of(row.line() for row in self.data.rows),
            "held_out": digest_of(row.line() for row in self.data.held_out),
            **self.settings.model_dump(mode="json", exclude=FREE_TO_CHANGE),
            **self.task.identity(),
        }

    def run(self) -> Path:
        """Train to the end, or until the monitor stops it, and save; see `train`."""
        parts = self._prepare()
        trainer, selection = parts.trainer, parts.selection
        prompt_set = prompt_set_of(self.checkpoint) or default_prompt_set()
        record = record_of(self.out, prompt_set, self.settings.image_pixels)
        if selection.finished is None:
            trainer.train(resume_from_checkpoint=str(selection.resumed) if selection.resumed else None)
            if selection.monitor.stopped is None and trainer.state.global_step % self.settings.save_steps:
                trainer.evaluate()
        selection.keep()
        if trainer.accelerator.is_main_process:
            self._report(parts, trainer.state.log_history or logged(selection.last))
        save_trained(
            trainer, parts.processor, record, self.final, self.settings.save_dtype, selection.finished
        )
        return selection.result()

    def _prepare(self) -> _Parts:
        from transformers import PrinterCallback

        from ..gate.collapse_monitor import CollapseMonitor
        from ..trainer.callbacks import Progress
        from .trainer import PairTrainer, PairWatch, ShownPairs, config_of

        settings, task, images = self.settings, self.task, self.data.images
        rows, held_out = self._usable()
        steps = steps_of(settings, len(rows), self.devices)
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(self.out / "tensorboard")
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
        self.log(f"{trained:,} of {whole:,} weights train on {len(rows)} pairs in {steps} steps")
        self.log(_first_row(trainer, policy.processor))
        asked = task.questions(held_out)
        questions = [self._question(row) for row in asked]
        prompt_set = prompt_set_of(self.checkpoint) or default_prompt_set()

        def check() -> Found:
            with gathered(trainer) as model:
                answers, lengths = greedy_answers(
                    model, policy.processor, questions, settings.max_completion_length, settings.check_batch
                )
            return of_first_rank(lambda: task.summarise(asked, answers, lengths, prompt_set), self.devices)

        checks = CheckLog(self.out, task.check)
        watch = PairWatch(self.log, settings.beta)
        monitor = CollapseMonitor(check, checks, settings, watch, self.log, agreed(self.devices))
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(monitor)
        trainer.add_callback(watch)
        shown = sum(len(row.images) for row in rows) / len(rows)
        a_step = settings.per_device_train_batch_size * settings.gradient_accumulation_steps * self.devices
        trainer.add_callback(Progress(self.log, DPO_PARTS, shown * a_step))
        notes = [
            f"{trained:,} of {whole:,} weights trained",
            f"{len(rows)} pairs, {steps} steps planned; {len(held_out)} pairs held out",
        ]
        selection = CheckpointSelection(self.out, monitor, steps, self.log)
        return _Parts(trainer, selection, checks, policy.processor, asked, notes)

    def _question(self, row: Pair) -> dict[str, Any]:
        """A held-out question with its images as they are shown."""
        made = as_preference(row, self.data.images)
        area = min(self.settings.image_pixels, MAX_PIXELS)
        return {**made, "images": [scaled_down(Picture.open(path), area) for path in made["images"]]}

    def _usable(self) -> tuple[list[Pair], list[Pair]]:
        """The pairs to train on and to check on that can be shown with either answer."""
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

    def _report(self, parts: _Parts, history: list[dict[str, Any]]) -> None:
        known = self.description()
        TrainingReport(
            title=f"The {self.task.agent}'s preference training",
            history=history,
            held_out=self.task.curves(parts.checks),
            answers=self._answered(parts),
            notes=parts.notes,
            stopped=parts.selection.monitor.stopped,
            made_of={
                "model": f"{self.checkpoint.name} (digest {known['model']})",
                **digests(
                    [
                        ("pairs learned", len(self.data.rows), known["rows"]),
                        ("pairs held out", len(self.data.held_out), known["held_out"]),
                    ]
                ),
                **self.task.identity(),
                "libraries": libraries(),
            },
            settings=shown_settings(self.settings),
        ).write(self.out)
        parts.selection.write_result()

    def _answered(self, parts: _Parts) -> list[Answered]:
        """The first held-out questions with the answers of the first check and of the last."""
        checks = list(parts.checks.all.values())
        if not checks:
            return []
        answers = zip(parts.asked, checks[0].answers, checks[-1].answers, strict=False)
        return [self.task.answered(row, self.data.images, before, after) for row, before, after in answers]


def _first_row(trainer: Any, processor: Any) -> str:
    """What the trainer makes of the first pair: tokens, those of images, those of either answer.

    Raises TrainingError if images or answers are lost on the way, which the trainer itself would pass over in
    silence.
    """
    row = trainer.train_dataset[0]
    pictures = len(row["images"])
    batch = trainer.data_collator([row])
    ids, mask = batch["input_ids"], batch["completion_mask"]
    seen = int((ids[0] == processor.image_token_id).sum())
    chosen, rejected = (int(one.sum()) for one in mask)
    if bool(pictures) != bool(seen) or not chosen or not rejected:
        raise TrainingError(
            f"Of the first pair's {ids.shape[1]} tokens {seen} are of its {pictures} images, {chosen} of the "
            f"chosen answer and {rejected} of the rejected one.",
            "The checkpoint's chat template does not go with it.",
        )
    return (
        f"of the first pair's {ids.shape[1]} tokens {seen} are of images; the chosen answer has {chosen}, "
        f"the rejected one {rejected}"
    )

"""Reinforcement learning of an agent with trl's GRPO trainer: several answers to each row, one reward each.

Decisions. The trainer is trl's, used as it is; ours are the task (task.py: what is asked, and what an answer
is worth), the settings that make its batches come out even, the monitor (gate/collapse_monitor.py), and
the checkpoint that comes out. Everything is counted in rollouts: one is `prompts` groups of
`num_generations` answers, drawn, scored and learned from in `updates` optimiser steps; checkpoints and checks
fall on whole rollouts only, because a run that is stopped within one goes on with other answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from ...backend.chat.chat_template import rendered
from ...backend.chat.protocol import as_read
from ...backend.checkpoints.checkpoint import checkpoint_digest
from ...backend.machine.requirements import require
from ...backend.prompts import PromptSet, default_prompt_set, prompt_set_of
from ..data.rows.conversations import with_images
from ..data.rows.lengths import TokenLimit, fitting
from ..gate.checkpoint_selection import CheckpointSelection, ended
from ..gate.held_out import CheckLog, HeldOutCheck, greedy_answers
from ..reward.rollout_reward import RolloutReading, RolloutReward
from ..trainer.html_report import Answered, TrainingReport
from ..trainer.model_loading import (
    check_options,
    count_parameters,
    load_policy,
    load_processor,
    reports_to,
    silence_libraries,
)
from ..trainer.ranks import agreed, gathered, of_first_rank
from ..trainer.resume import claim_run, digest_of, given_back_on_failure, logged
from ..trainer.run_description import digests, libraries, shown_settings
from ..trainer.saving import record_of, save_trained
from ..trainer.step_clock import StepClock
from .settings import FREE_TO_CHANGE, GrpoTraining, batches, rollouts_of, vllm_arguments
from .task import Found, Row, Task

if TYPE_CHECKING:
    from .trainer import RewardTrainer

Log = Callable[[str], None]


@dataclass(frozen=True)
class RlData(Generic[Row]):
    """Rows to train on and rows to check on, with image paths relative to one folder. Rows that cannot be
    used are left out if `skip_bad`, else an error."""

    rows: Sequence[Row]
    held_out: Sequence[Row]
    images: Path
    skip_bad: bool = False


def train(
    checkpoint: Path,
    data: RlData[Row],
    out: Path,
    settings: GrpoTraining,
    task: Task[Row, Any],
    log: Log = print,
) -> Path:
    """Train the agent in `checkpoint` on the rows into `out`; continues a stopped run.

    Returns `out / "final"`: a model, or an adapter if a LoRA rank is set. Raises SettingsError, also for a
    row that cannot be shown or is longer than `settings.max_prompt_length` unless such rows are skipped, and
    TrainingError for a training that had to stop; the last good checkpoint is then in `out / "final"` if
    there is one.
    """
    check_options(settings)
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    batches(settings, devices)
    vllm_arguments(settings, devices)
    if settings.use_vllm:
        require("vllm")
    task.require()
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    run = Reinforcement(checkpoint, data, out, settings, task, log)
    claim_run(out, run.description())
    if run.final.is_dir():
        return ended(out, log)
    with given_back_on_failure(out), silence_libraries():
        return run.run()


class _Parts(NamedTuple):
    """What a training is put together from, for its steps and its end."""

    trainer: RewardTrainer
    selection: CheckpointSelection
    checks: CheckLog[Any]
    processor: Any
    prompt_set: PromptSet
    held_out: list[Any]
    asked: list[dict[str, Any]]
    notes: list[str]


@dataclass(frozen=True)
class Reinforcement(Generic[Row, Found]):
    """One agent's reinforcement learning: the agent, the rows, the folder, the settings, the task."""

    checkpoint: Path
    data: RlData[Row]
    out: Path
    settings: GrpoTraining
    task: Task[Row, Found]
    log: Log

    @property
    def final(self) -> Path:
        """The finished checkpoint's folder."""
        return self.out / "final"

    @property
    def devices(self) -> int:
        """Processes that train together."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    def description(self) -> dict[str, Any]:
        """What this training is made of, by which a stopped one is known again."""
        return {
            "stage": self.task.stage,
            "model": checkpoint_digest(self.checkpoint),
            "rows": digest_of(map(self.task.written, self.data.rows)),
            "held_out": digest_of(map(self.task.written, self.data.held_out)),
            **self.settings.model_dump(mode="json", exclude=FREE_TO_CHANGE),
            **self.task.identity(),
        }

    def run(self) -> Path:
        """Train to the end, or until the monitor stops it, and save; see `train`."""
        parts = self._prepare()
        trainer, selection = parts.trainer, parts.selection
        record = record_of(self.out, parts.prompt_set, self.settings.image_pixels)
        if selection.finished is None:
            trainer.train(resume_from_checkpoint=str(selection.resumed) if selection.resumed else None)
        selection.keep()
        if trainer.accelerator.is_main_process:
            self._report(parts, trainer.state.log_history or logged(selection.last))
        half = self.settings.save_dtype
        save_trained(trainer, parts.processor, record, self.final, half, selection.finished)
        return selection.result()

    def _prepare(self) -> _Parts:
        from transformers import PrinterCallback

        from ..gate.collapse_monitor import CollapseMonitor
        from ..trainer.callbacks import Progress, Stopwatch
        from .trainer import RewardTrainer, config_of

        settings, task, images = self.settings, self.task, self.data.images
        prompt_set = prompt_set_of(self.checkpoint) or default_prompt_set()
        rows, held_out = self._usable(load_processor(self.checkpoint), prompt_set)
        steps_in_all = rollouts_of(settings, len(rows)) * settings.updates
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(self.out / "tensorboard")
        reporters = reports_to(settings, self.log)
        # A rank's share of a rollout, or the check that the first one makes for all.
        answers = max(settings.prompts * settings.num_generations // self.devices, len(held_out))
        longest = task.longest(answers)
        config = config_of(settings, self.out / "steps", steps_in_all, self.devices, reporters, longest)
        policy = load_policy(self.checkpoint, settings)
        shown, pixels = self.out / "shown", settings.image_pixels
        asked = [task.question(row, images, shown, prompt_set, pixels) for row in held_out]
        clock = StepClock()
        questions = [task.question(row, images, shown, prompt_set, pixels) for row in rows]
        reward = self._reward(policy.processor, questions[0]["prompt"], prompt_set, clock)
        trainer = RewardTrainer(
            reward,
            model=policy.model,
            args=config,
            train_dataset=with_images(questions),
            processing_class=policy.processor,
            peft_config=policy.adapter,
        )
        reward.begin(trainer, policy.processor)
        trained, whole = count_parameters(trainer.model)
        rollouts = steps_in_all // settings.updates
        self.log(
            f"{trained:,} of {whole:,} weights train; {rollouts} rollouts of {settings.prompts} x "
            f"{settings.num_generations}"
        )

        def check() -> Found:
            with gathered(trainer) as model:
                answers, lengths = greedy_answers(
                    model, policy.processor, asked, settings.max_completion_length, settings.check_batch
                )
            return of_first_rank(lambda: task.summarise(held_out, answers, lengths, prompt_set), self.devices)

        checks = CheckLog(self.out, task.check)
        monitor = CollapseMonitor(check, checks, settings, reward, self.log, agreed(self.devices))
        trainer.measured += [clock.taken, monitor.taken]
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Stopwatch(clock))
        trainer.add_callback(monitor)
        trainer.add_callback(Progress(self.log, task.parts))
        notes = [
            f"{trained:,} of {whole:,} weights trained",
            f"{len(rows)} rows, {steps_in_all} steps planned",
        ]
        selection = CheckpointSelection(self.out, monitor, steps_in_all, self.log)
        return _Parts(trainer, selection, checks, policy.processor, prompt_set, held_out, asked, notes)

    def _reward(
        self, processor: Any, question: Any, prompt_set: PromptSet, clock: StepClock
    ) -> RolloutReward[Any, Any]:
        """The reward; `question` is one of the conversations, which shows what the chat template opens."""
        prompt = rendered(processor, question)
        decode = processor.tokenizer.decode
        rank = os.environ.get("RANK", "0")
        reading = RolloutReading(
            images=self.data.images,
            decode=lambda ids: as_read(prompt, decode(list(ids), skip_special_tokens=True)),
            verdict_first=prompt_set.verdict_first,
            seed=self.settings.seed,
        )
        rollouts = self.out / "rollouts" / (f"rank_{rank}" if self.devices > 1 else "")
        return self.task.reward(self.out, reading, rollouts, clock)

    def _usable(self, processor: Any, prompt_set: PromptSet) -> tuple[list[Row], list[Row]]:
        """The rows to train on and to check on that can be shown; raises SettingsError for another one unless
        such rows are skipped."""
        limit = TokenLimit(self.settings.max_prompt_length, "--max-prompt-length", self.data.skip_bad)

        def usable(some: Sequence[Row], which: str = "") -> list[Row]:
            images, pixels = self.data.images, self.settings.image_pixels
            shown = [self.task.shown(row, images, prompt_set, pixels) for row in some]
            return fitting(some, shown, processor, limit, self.log, which)

        trained, held = usable(self.data.rows), usable(self.data.held_out, "held-out ")
        whole = len(held) == len(self.data.held_out)
        return trained, held if whole else self.task.check_rows(held, self.settings)

    def _made_of(self) -> dict[str, str]:
        """What the page says of the model, the rows, and who rewards."""
        known = self.description()
        return {
            "model": f"{self.checkpoint.name} (digest {known['model']})",
            **digests(
                [
                    ("rows learned", len(self.data.rows), known["rows"]),
                    ("rows held out", len(self.data.held_out), known["held_out"]),
                ]
            ),
            **self.task.rewarders(),
            "libraries": libraries(),
        }

    def _report(self, parts: _Parts, history: list[dict[str, Any]]) -> None:
        TrainingReport(
            title=f"The {self.task.agent}'s reinforcement learning",
            history=history,
            held_out=self.task.curves(parts.checks),
            answers=self._answered(parts),
            notes=parts.notes,
            stopped=parts.selection.monitor.stopped,
            made_of=self._made_of(),
            settings=shown_settings(self.settings, *self.task.settings()),
        ).write(self.out)
        parts.selection.write_result()

    def _answered(self, parts: _Parts) -> list[Answered]:
        """The first held-out rows with the answers of the first check and of the last."""
        checks: list[HeldOutCheck] = list(parts.checks.all.values())
        if not checks:
            return []
        answers = zip(checks[0].answers, checks[-1].answers, strict=False)
        rows = zip(parts.held_out, parts.asked, answers, strict=False)
        return [self.task.answered(row, asked, *both) for row, asked, both in rows]

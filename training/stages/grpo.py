"""GRPO training of an agent with trl: several answers per row, one reward per answer.

trl's trainer is used without changes to its algorithm. Added are the `Task`, which has everything that
differs between agents (questions, rewards and held-out checks), settings whose batches divide evenly
(grpo_settings.py), the monitor (grpo_trainer.py) and the format of the final checkpoint. A rollout is
`prompts` groups of `num_generations` answers, which are generated, scored and used in `updates` optimizer
steps. Checkpoints and checks happen only after whole rollouts: a run that is interrupted within one would
continue with different answers.

A training that had to stop still leaves its last good checkpoint as the result. It reports the stop as an
error, now and whenever the same command is run again.
"""

from __future__ import annotations

import asyncio
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple

from pydantic import BaseModel

from ...backend.core.errors import TrainingError
from ...backend.core.machine.libraries import require
from ...backend.core.prompts.agent_card import Role
from ...backend.core.prompts.prompt_set import PromptSet, default_prompt_set
from ...backend.models.chat.chat_template import as_read, rendered
from ..gate.held_out import Check, CheckLog, HeldOutCheck, PlanCheck, greedy_answers, plan_check, summarise
from ..reward.critic_reward import CriticReward, RewardSetup
from ..reward.plan_judges import JudgingSettings, PlanJudge, PlanJudging
from ..reward.plan_reward import PlannerReward, PlanRewardSettings, plan_samples
from ..reward.rollout_reward import RolloutReading, RolloutReward
from ..rows.lengths import TokenLimit, fitting
from ..rows.rl import CriticRlRow, PlannerRlRow
from ..rows.sft import with_images
from ..trainer.ending import gathered, of_first_rank
from ..trainer.model_card import CardFacts, facts_of, read_facts
from ..trainer.model_loading import check_options, count_parameters, load_policy, load_processor
from ..trainer.progress import GRPO_PARTS, PLANNER_GRPO_PARTS, LineParts, number
from ..trainer.resume import digest_of, newest_checkpoint, step_of, whole_checkpoints
from ..trainer.run import Log, Prepared, TrainingRun
from ..trainer.saving import Result, record_of, save_trained
from .grpo_settings import (
    FREE_TO_CHANGE,
    GrpoTraining,
    Row,
    TrainingData,
    batches,
    check_rows_of,
    rollouts_of,
    vllm_arguments,
)

if TYPE_CHECKING:
    from .grpo_trainer import CollapseMonitor


class Task(ABC, Generic[Row]):
    """An agent to train with GRPO: its questions, rewards and held-out checks."""

    stage: ClassVar[str]
    """Name of the command and of its section in a recipe."""
    agent: ClassVar[Role]
    check: ClassVar[type[HeldOutCheck]]
    """Class of a check's result."""
    parts: ClassVar[LineParts]
    """Parts of a log entry that the progress line shows."""

    def require(self) -> None:
        """Raise SettingsError if a library is missing."""

    def identity(self) -> dict[str, Any]:
        """Return what makes the rewards, as JSON; a training is resumed only with the same."""
        return {**self.rewarders(), **self.settings()[0].model_dump(mode="json")}

    @abstractmethod
    def rewarders(self) -> dict[str, str]:
        """Return the identities of the models that make the rewards, by their role, for the model card."""

    @abstractmethod
    def settings(self) -> tuple[BaseModel, BaseModel]:
        """Return the terms of the reward, and the settings of the calls to the models that make it."""

    def check_row(self, row: Row) -> None:
        """Raise SettingsError if answers to the row cannot be judged."""

    def check_rows(self, rows: Sequence[Row], settings: GrpoTraining) -> list[Row]:
        """Choose the rows of a check from those that can be shown: the first ones.

        Raises:
            SettingsError: The rows are not enough for a check.
        """
        return list(rows[: settings.check_rows])

    @abstractmethod
    def reward(self, out: Path, reading: RolloutReading, rollouts: Path) -> RolloutReward[Any, Any]:
        """Return the reward of a training in the folder `out`.

        Raises:
            SettingsError: The settings of the reward cannot be used.
        """

    @abstractmethod
    def summarise(
        self, rows: Sequence[Row], answers: Sequence[str], lengths: Sequence[int], prompt_set: PromptSet
    ) -> HeldOutCheck:
        """Return the result of a check of these answers, which are `lengths` tokens long."""

    def longest(self, answers: int) -> float:
        """Return the longest time in seconds that rewards or a check of this many answers can take."""
        calls: Any = self.settings()[1]
        return calls.longest(answers)


@dataclass(frozen=True)
class CriticTask(Task[CriticRlRow]):
    """Rewards a critic for its verdicts and for the images generated from its refined prompts."""

    setup: RewardSetup
    stage = "critic-grpo"
    agent = "critic"
    check = Check
    parts = GRPO_PARTS

    def require(self) -> None:
        """Check that `json_repair` is installed if answers are read in the published way."""
        if self.setup.terms.published_quirks:
            require("json_repair")

    def rewarders(self) -> dict[str, str]:
        """Return the identities of the generator and the scorer."""
        return {"generator": self.setup.generator.identity, "scorer": self.setup.scorer.identity}

    def settings(self) -> tuple[BaseModel, BaseModel]:
        """Return the terms of the reward and the settings of the redraws."""
        return self.setup.terms, self.setup.drawing

    def check_rows(self, rows: Sequence[CriticRlRow], settings: GrpoTraining) -> list[CriticRlRow]:
        """Return the rows of a check, half of them right and half wrong images."""
        return check_rows_of(rows, settings)

    def reward(self, out: Path, reading: RolloutReading, rollouts: Path) -> CriticReward:
        """Open the redrawer and return the critic's reward."""
        return CriticReward(self.setup.open_redrawer(out), self.setup.terms, reading, rollouts)

    def summarise(
        self,
        rows: Sequence[CriticRlRow],
        answers: Sequence[str],
        lengths: Sequence[int],
        prompt_set: PromptSet,
    ) -> Check:
        """Compare the verdicts with the truth."""
        return summarise(rows, answers, lengths, prompt_set.verdict_first)


@dataclass(frozen=True)
class PlannerTask(Task[PlannerRlRow]):
    """Rewards a planner for its plans with `judge`; image paths of the rows are relative to `images`."""

    judge: PlanJudge
    terms: PlanRewardSettings
    judging: JudgingSettings
    images: Path
    stage = "planner-grpo"
    agent = "planner"
    check = PlanCheck
    parts = PLANNER_GRPO_PARTS

    def rewarders(self) -> dict[str, str]:
        """Return the identity of the judge."""
        return {"judge": self.judge.identity}

    def settings(self) -> tuple[BaseModel, BaseModel]:
        """Return the terms of the reward, and the settings of the judge's calls."""
        return self.terms, self.judging

    def check_row(self, row: PlannerRlRow) -> None:
        """Raise SettingsError if the judge cannot judge plans for the row."""
        self.judge.check(row)

    def reward(self, out: Path, reading: RolloutReading, rollouts: Path) -> PlannerReward:
        """Return the planner's reward; answers of a chat judge are cached in `out`."""
        self.judge.keep_in(out / "judgements.sqlite")
        return PlannerReward(PlanJudging(self.judge, self.judging), self.terms, reading, rollouts)

    def summarise(
        self,
        rows: Sequence[PlannerRlRow],
        answers: Sequence[str],
        lengths: Sequence[int],
        prompt_set: PromptSet,
    ) -> PlanCheck:
        """Judge the held-out plans in the same way as the rewarded ones."""
        judging = PlanJudging(self.judge, self.judging)
        samples = asyncio.run(plan_samples(answers, rows, judging, self.terms, self.images))
        return plan_check(samples, lengths, self.terms.most_copied)


class CheckpointSelection:
    """Checkpoints of a training in `out`: the one to resume from, and the one that becomes the result."""

    def __init__(self, out: Path, monitor: CollapseMonitor, steps: int, log: Log) -> None:
        """Find the newest checkpoint of a training of `steps` optimizer steps, unless the user ends it."""
        self.out, self.monitor, self.steps, self.log = out, monitor, steps, log
        self.resumed = newest_checkpoint(out / "steps")
        ended = monitor.ending is not None and monitor.ending.decided()
        done = self.resumed is not None and (ended or step_of(self.resumed) >= steps)
        self.finished: Path | None = self.resumed if done else None
        """Checkpoint to save, or None to save the weights in memory."""
        self.last: Path | None = None
        """Newest complete checkpoint after the training."""

    def keep(self) -> None:
        """Decide which checkpoint is saved.

        Raises:
            TrainingError: The reward or judge is unavailable, or the training had to stop before its first
                checkpoint.
        """
        monitor, self.last = self.monitor, newest_checkpoint(self.out / "steps")
        if monitor.outage is not None:
            step = step_of(self.last) if self.last else 0
            raise TrainingError(
                f"Training stopped: {monitor.outage.rstrip('.')}.",
                f"Fix the problem, then run the same command again to resume from step {step}.",
            )
        if monitor.stopped is not None:
            if self.last is None:
                raise TrainingError(
                    f"Training stopped before its first checkpoint: {monitor.stopped}.",
                    "Nothing was saved. Start again with other settings.",
                )
            self.finished = self.last
            self.log(f"keeping the checkpoint of step {step_of(self.last)}, the last good one")
        best = monitor.checks.best(map(step_of, whole_checkpoints(self.out / "steps")))
        if monitor.keep_best and best is not None:
            self.finished = self.out / "steps" / f"checkpoint-{best}"
            self.log(f"using the checkpoint of step {best}, which has the best held-out check")


def check_stop(stopped: str | None, final: Path) -> None:
    """Raise TrainingError if the training, whose result is in `final`, had to stop."""
    if stopped:
        raise TrainingError(
            f"Training stopped: {stopped}.", f"The last good checkpoint is in {str(final)!r}."
        )


NOTHING_LEARNED = (
    "WARNING: nothing was learned. In every rollout, all answers to the same row had equal rewards (dead "
    "1.00). Raise the temperature, or give rows that the agent answers sometimes right and sometimes wrong."
)


def train(
    checkpoint: Path,
    data: TrainingData[Row],
    out: Path,
    settings: GrpoTraining,
    task: Task[Row],
    log: Log = print,
) -> Path:
    """Train the agent in `checkpoint` on the rows with GRPO; resumes an interrupted training in `out`.

    Returns:
        `out / "final"`: a model, or an adapter if a LoRA rank is set.

    Raises:
        SettingsError: The settings contradict each other, or a row cannot be shown or is longer than
            `settings.max_prompt_length` and such rows are not skipped.
        TrainingError: The training had to stop. The last good checkpoint, if there is one, is in `out /
            "final"`.
    """
    check_options(settings)
    run = Reinforcement(checkpoint, data, out, settings, task, log)
    batches(settings, run.devices)
    vllm_arguments(settings)
    if settings.use_vllm:
        require("vllm")
    task.require()
    return run.carry_out()


def all_dead(history: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether in every logged rollout each group had equal rewards."""
    shares = [share for entry in history if (share := number(entry, "reward/dead")) is not None]
    return bool(shares) and min(shares) >= 1.0


class Parts(NamedTuple):
    """The objects of a training that its steps and its end need."""

    trainer: Any
    selection: CheckpointSelection
    checks: CheckLog[Any]
    processor: Any
    notes: list[str]


@dataclass(frozen=True)
class Reinforcement(TrainingRun, Generic[Row]):
    """One GRPO training: its agent, rows, folder, settings and task."""

    checkpoint: Path
    data: TrainingData[Row]
    out: Path
    settings: GrpoTraining
    task: Task[Row]
    log: Log

    @property
    def whole(self) -> int:
        """Optimizer steps of a rollout."""
        return self.settings.updates

    @property
    def prompt_set(self) -> PromptSet:
        """Prompt set of the trained agent."""
        return self.settings.prompt_set(self.checkpoint) or default_prompt_set()

    def finished(self) -> Path:
        """Return the result of a training that ended earlier; raise TrainingError if it had to stop."""
        facts = read_facts(self.final)
        check_stop(facts.stopped if facts else None, self.final)
        return super().finished()

    def description(self) -> dict[str, Any]:
        """Return everything that must be unchanged when the training is resumed."""
        return {
            "stage": self.task.stage,
            **self.settings.identity(self.checkpoint),
            "rows": digest_of(row.content() for row in self.data.rows),
            "held_out": digest_of(row.content() for row in self.data.held_out),
            **self.settings.model_dump(mode="json", exclude=FREE_TO_CHANGE | {"adapter"}),
            **self.task.identity(),
        }

    def run(self) -> Path:
        """Train to the end, or until the monitor stops it, and save."""
        parts = self.prepare()
        trainer, selection = parts.trainer, parts.selection
        record = record_of(self.out, self.prompt_set, self.settings.image_pixels, self.task.agent)
        if selection.finished is None:
            self.train_from(trainer, selection.resumed, record)
            if all_dead(trainer.state.log_history):
                self.log(NOTHING_LEARNED)
        selection.keep()
        done = step_of(selection.finished) if selection.finished else trainer.state.global_step
        parts.notes.extend(self.ending.note(done, selection.steps))
        facts = self._facts(parts) if trainer.accelerator.is_main_process else None
        result = Result(record, self.settings.save_dtype, selection.finished, facts)
        save_trained(trainer, parts.processor, self.final, result)
        check_stop(selection.monitor.stopped, self.final)
        return self.final

    def prepared(self) -> Prepared:
        """Return the training ready to begin. Its check is that of the starting model."""
        parts = self.prepare()
        trainer, monitor, steps = parts.trainer, parts.selection.monitor, parts.selection.steps
        trainer.remove_callback(monitor)

        def check() -> None:
            monitor.on_train_begin(trainer.args, trainer.state, trainer.control)

        return Prepared(trainer, steps, check, 1 + math.ceil(steps / self.settings.save_steps))

    def monitor(
        self,
        trainer: Any,
        processor: Any,
        held_out: Sequence[Row],
        asked: Sequence[dict[str, Any]],
        watch: Any,
    ) -> tuple[CollapseMonitor, CheckLog[Any]]:
        """Return the monitor that asks the questions `asked` at every checkpoint, and the log of its checks.

        `watch` reports problems of the training between the checks.
        """
        from .grpo_trainer import CollapseMonitor, Limits

        settings, prompt_set = self.settings, self.prompt_set

        def check() -> HeldOutCheck:
            with gathered(trainer) as model:
                answers, lengths = greedy_answers(
                    model, processor, asked, settings.max_completion_length, settings.check_batch
                )
            return of_first_rank(
                lambda: self.task.summarise(held_out, answers, lengths, prompt_set), self.devices
            )

        checks = CheckLog(self.out, self.task.check)
        limits = Limits(settings.save_steps, settings.collapse_threshold, settings.keep_best)
        return CollapseMonitor(check, checks, limits, watch, self.log, self.ending), checks

    def prepare(self) -> Parts:
        """Load the model, and build the trainer, the reward and the monitor."""
        from transformers import PrinterCallback

        from ..trainer.callbacks import Progress
        from .grpo_trainer import RewardTrainer, check_ends, config_of

        settings, task, images = self.settings, self.task, self.data.images
        prompt_set = self.prompt_set
        processor = load_processor(self.checkpoint)
        check_ends(self.checkpoint, processor.tokenizer.eos_token_id)
        rows, held_out = self._usable(processor, prompt_set)
        steps_in_all = rollouts_of(settings, len(rows), self.devices) * settings.updates
        # The answers that one rank rewards per rollout, or those of the check, which rank 0 makes for all
        # ranks.
        answers = max(settings.prompts * settings.num_generations // self.devices, len(held_out))
        longest = task.longest(answers)
        config = config_of(settings, self.out / "steps", steps_in_all, self.devices, longest)
        policy = load_policy(self.checkpoint, settings)
        shown, pixels = self.out / "shown", settings.image_pixels
        asked_held_out = [row.question(images, shown, prompt_set, pixels) for row in held_out]
        questions = [row.question(images, shown, prompt_set, pixels) for row in rows]
        reward = self._reward(policy.processor, questions[0]["prompt"], prompt_set)
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
            f"training {trained:,} of {whole:,} parameters; {rollouts} rollouts of {settings.prompts} "
            f"prompts x {settings.num_generations} answers"
        )

        monitor, checks = self.monitor(trainer, policy.processor, held_out, asked_held_out, reward)
        trainer.measured.append(monitor.taken)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(monitor)
        trainer.add_callback(Progress(self.log, task.parts, whole=settings.updates))
        notes = [
            f"{trained:,} of {whole:,} parameters trained",
            f"{len(rows)} rows, {steps_in_all} steps planned",
        ]
        selection = CheckpointSelection(self.out, monitor, steps_in_all, self.log)
        return Parts(trainer, selection, checks, policy.processor, notes)

    def _reward(self, processor: Any, question: Any, prompt_set: PromptSet) -> RolloutReward[Any, Any]:
        """Return the reward; `question` is any of the prompts and shows what the chat template opens."""
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
        return self.task.reward(self.out, reading, rollouts)

    def _usable(self, processor: Any, prompt_set: PromptSet) -> tuple[list[Row], list[Row]]:
        """Return the rows to train on and to check on that can be shown.

        Raises:
            SettingsError: A row cannot be shown, and such rows are not skipped.
        """
        limit = TokenLimit(self.settings.max_prompt_length, "max_prompt_length", self.data.skip_bad)

        def usable(some: Sequence[Row], which: str = "") -> list[Row]:
            images, pixels = self.data.images, self.settings.image_pixels
            for row in some:
                self.task.check_row(row)
            shown = [row.shown(images, prompt_set, pixels) for row in some]
            return fitting(some, shown, processor, limit, self.log, which)

        trained, held = usable(self.data.rows), usable(self.data.held_out, "held-out ")
        whole = len(held) == len(self.data.held_out)
        return trained, held if whole else self.task.check_rows(held, self.settings)

    def _facts(self, parts: Parts) -> CardFacts:
        known, data, checks = self.description(), self.data, parts.checks.all
        kept, steps = parts.selection.finished, list(checks)
        shown = {*steps[:1], *steps[-1:], *([step_of(kept)] if kept else ())}
        rows = [
            ("training rows", len(data.rows), known["rows"]),
            ("held-out rows", len(data.held_out), known["held_out"]),
        ]
        return facts_of(
            self.task.stage,
            self.task.agent,
            self.checkpoint,
            rows,
            [self.settings, *self.task.settings()],
            self.task.rewarders(),
            notes=tuple(parts.notes),
            checks=tuple(f"step {step}: {check}" for step, check in checks.items() if step in shown),
            stopped=parts.selection.monitor.stopped,
        )

"""The sequence of a training that checks held-out answers at every checkpoint (DPO, GRPO).

A monitor stops a training that collapses, and the last good checkpoint becomes the result. The subclasses for
preference training and reinforcement learning add their trainer and their questions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel

from ...backend.checkpoints.checkpoint import checkpoint_digest
from ...backend.prompts import PromptSet, default_prompt_set, prompt_set_of
from ...backend.prompts.agent_card import Role
from ...backend.prompts.trained_with import TrainedWith
from ..trainer.report.card_facts import CardFacts, made_with, origin_of, rows_of, setting_facts
from ..trainer.report.html_report import Answered, Points, TrainingReport
from ..trainer.report.run_description import digests, libraries, shown_settings
from ..trainer.resume import digest_of, logged, step_of
from ..trainer.run import TrainingRun
from ..trainer.saving import Result, record_of, save_trained
from ..trainer.steps.dry_run import Prepared
from ..trainer.steps.ranks import gathered, of_first_rank
from .checkpoint_selection import CheckpointSelection, ended
from .held_out import CheckLog, Found, HeldOutCheck, greedy_answers

if TYPE_CHECKING:
    from .collapse_monitor import CollapseMonitor

Row = TypeVar("Row")
RowIn = TypeVar("RowIn", contravariant=True)


@dataclass(frozen=True)
class TrainingData(Generic[Row]):
    """Rows to train on and rows to check on, with image paths relative to one folder.

    Rows that cannot be used raise an error, or are left out with `skip_bad`.
    """

    rows: Sequence[Row]
    held_out: Sequence[Row]
    images: Path
    skip_bad: bool = False


class MonitoredTask(Protocol[RowIn, Found]):
    """The questions of the trained agent, and the evaluation of its answers to held-out rows."""

    stage: str
    """Name of the command and of its section in a recipe."""
    agent: str
    """"critic" or "planner"."""

    @property
    def check(self) -> type[Found]:
        """Class of a check's result."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return the identity of the judge, as JSON; a training is resumed only with the same one."""
        ...

    def summarise(
        self, rows: Sequence[RowIn], answers: Sequence[str], lengths: Sequence[int], prompt_set: PromptSet
    ) -> Found:
        """Return the result of a check of these answers, which are `lengths` tokens long."""
        ...

    def curves(self, checks: CheckLog[Found]) -> dict[str, Points]:
        """Return the held-out measures over steps, for the report."""
        ...


class Parts(NamedTuple):
    """The objects of a training that its steps and its end need."""

    trainer: Any
    selection: CheckpointSelection
    checks: CheckLog[Any]
    processor: Any
    held_out: Sequence[Any]
    """Rows of a check."""
    asked: Sequence[dict[str, Any]]
    """Questions of these rows."""
    notes: list[str]


class MonitoredRun(TrainingRun, Generic[Row, Found]):
    """A training with a monitor."""

    kind: ClassVar[str]
    """Name in the report's title, such as "preference training"."""
    unit: ClassVar[str]
    """Name of its rows in the report: "rows" or "pairs"."""
    free_to_change: ClassVar[set[str]]
    """Settings that may change when a training is resumed."""

    data: TrainingData[Row]
    settings: Any
    """Settings with `max_completion_length` and `check_batch`."""

    @property
    @abstractmethod
    def monitored(self) -> MonitoredTask[Row, Found]:
        """The task."""

    @abstractmethod
    def lines(self, rows: Sequence[Row]) -> Iterable[str]:
        """Return the rows as lines of JSON, for their digest."""

    @abstractmethod
    def prepare(self) -> Parts:
        """Load the model and build the trainer."""

    @abstractmethod
    def answered(self, row: Row, question: dict[str, Any], before: str, after: str) -> Answered:
        """Return a held-out row with its first and last answer, for the report."""

    def train(self, parts: Parts, record: TrainedWith) -> None:
        """Train from the newest checkpoint, or from the start."""
        self.train_from(parts.trainer, parts.selection.resumed, record)

    def judges(self) -> Mapping[str, Any]:
        """Return the judges' names by their task, for the report."""
        return self.monitored.identity()

    def more_settings(self) -> Sequence[BaseModel]:
        """Return settings that the report shows in addition to the training's own."""
        return ()

    @property
    def prompt_set(self) -> PromptSet:
        """Prompt set of the trained agent."""
        return prompt_set_of(self.checkpoint) or default_prompt_set()

    def finished(self) -> Path:
        """Return the result of a training that ended earlier."""
        return ended(self.out, self.log)

    def description(self) -> dict[str, Any]:
        """Return everything that must be unchanged when the training is resumed."""
        return {
            "stage": self.monitored.stage,
            "model": checkpoint_digest(self.checkpoint),
            "rows": digest_of(self.lines(self.data.rows)),
            "held_out": digest_of(self.lines(self.data.held_out)),
            **self.settings.model_dump(mode="json", exclude=self.free_to_change),
            **self.monitored.identity(),
        }

    def run(self) -> Path:
        """Train to the end, or until the monitor stops it, and save."""
        parts = self.prepare()
        trainer, selection = parts.trainer, parts.selection
        role: Role = "planner" if self.monitored.agent == "planner" else "critic"
        record = record_of(self.out, self.prompt_set, self.settings.image_pixels, role)
        if selection.finished is None:
            self.train(parts, record)
        selection.keep()
        done = step_of(selection.finished) if selection.finished else trainer.state.global_step
        parts.notes.extend(self.ending.note(done, selection.steps))
        facts = None
        if trainer.accelerator.is_main_process:
            self._report(parts, trainer.state.log_history or logged(selection.last))
            facts = self._facts(parts, role)
        result = Result(record, self.settings.save_dtype, selection.finished, facts)
        save_trained(trainer, parts.processor, self.final, result)
        return selection.result()

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
    ) -> tuple[CollapseMonitor, CheckLog[Found]]:
        """Return the monitor that asks the questions `asked` at every checkpoint, and the log of its checks.

        `watch` reports problems of the training between the checks.
        """
        from .collapse_monitor import CollapseMonitor

        settings = self.settings
        prompt_set = self.prompt_set

        def check() -> Found:
            with gathered(trainer) as model:
                answers, lengths = greedy_answers(
                    model, processor, asked, settings.max_completion_length, settings.check_batch
                )
            return of_first_rank(
                lambda: self.monitored.summarise(held_out, answers, lengths, prompt_set), self.devices
            )

        checks = CheckLog(self.out, self.monitored.check)
        return CollapseMonitor(check, checks, settings, watch, self.log, self.ending), checks

    def _counted(self) -> list[tuple[str, int, str]]:
        """Return name, number and digest of the rows."""
        known, data = self.description(), self.data
        return [
            (f"training {self.unit}", len(data.rows), known["rows"]),
            (f"held-out {self.unit}", len(data.held_out), known["held_out"]),
        ]

    def _facts(self, parts: Parts, role: Role) -> CardFacts:
        checks = list(parts.checks.all.items())
        ends = checks[:1] + checks[1:][-1:]
        return CardFacts(
            stage=self.monitored.stage,
            role=role,
            base=origin_of(self.checkpoint),
            rows=rows_of(self._counted()),
            settings=setting_facts(shown_settings(self.settings, *self.more_settings())),
            made_with=made_with(self.judges()),
            notes=tuple(parts.notes),
            checks=tuple(f"step {step}: {check}" for step, check in ends),
            stopped=parts.selection.monitor.stopped,
        )

    def _report(self, parts: Parts, history: list[dict[str, Any]]) -> None:
        TrainingReport(
            title=f"{self.kind.capitalize()}: {self.monitored.agent}",
            history=history,
            held_out=self.monitored.curves(parts.checks),
            answers=self._answered(parts),
            notes=parts.notes,
            stopped=parts.selection.monitor.stopped,
            made_of={
                "model": f"{self.checkpoint.name} (digest {checkpoint_digest(self.checkpoint)})",
                **digests(self._counted()),
                **self.judges(),
                "libraries": libraries(),
            },
            settings=shown_settings(self.settings, *self.more_settings()),
        ).write(self.out)
        parts.selection.write_result()

    def _answered(self, parts: Parts) -> list[Answered]:
        """Return the first held-out rows with their answers of the first and of the last check."""
        checks: list[HeldOutCheck] = list(parts.checks.all.values())
        if not checks:
            return []
        answers = zip(checks[0].answers, checks[-1].answers, strict=False)
        rows = zip(parts.held_out, parts.asked, answers, strict=False)
        return [self.answered(row, asked, *both) for row, asked, both in rows]

"""The course of a training whose held-out answers are checked at every checkpoint (DPO, GRPO).

A monitor stops a training that collapses, and the last good checkpoint is kept. Preference training and
reinforcement learning differ in their trainer and in what they ask; that is left to the subclasses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel

from ...backend.checkpoints.checkpoint import checkpoint_digest
from ...backend.prompts import PromptSet, default_prompt_set, prompt_set_of
from ..trainer.ranks import agreed, gathered, of_first_rank
from ..trainer.report.html_report import Answered, Points, TrainingReport
from ..trainer.report.run_description import digests, libraries, shown_settings
from ..trainer.resume import digest_of, logged
from ..trainer.run import TrainingRun
from ..trainer.saving import record_of, save_trained
from .checkpoint_selection import CheckpointSelection, ended
from .held_out import CheckLog, Found, HeldOutCheck, greedy_answers

if TYPE_CHECKING:
    from .collapse_monitor import CollapseMonitor

Row = TypeVar("Row")
RowIn = TypeVar("RowIn", contravariant=True)


@dataclass(frozen=True)
class TrainingData(Generic[Row]):
    """Rows to train on and rows to check on, with image paths relative to one folder. Rows that cannot be
    used are left out if `skip_bad`, else an error."""

    rows: Sequence[Row]
    held_out: Sequence[Row]
    images: Path
    skip_bad: bool = False


class MonitoredTask(Protocol[RowIn, Found]):
    """What the agent that is trained is asked, and what its held-out answers are worth."""

    stage: str
    """The name of its command and of its section in a recipe."""
    agent: str
    """"critic" or "planner"."""

    @property
    def check(self) -> type[Found]:
        """The kind of its checks."""
        ...

    def identity(self) -> dict[str, Any]:
        """Who judges, by which a stopped training is known again; as JSON."""
        ...

    def summarise(
        self, rows: Sequence[RowIn], answers: Sequence[str], lengths: Sequence[int], prompt_set: PromptSet
    ) -> Found:
        """What a check finds of these answers, `lengths` tokens long."""
        ...

    def curves(self, checks: CheckLog[Found]) -> dict[str, Points]:
        """The held-out measures over steps, for the end page."""
        ...


class Parts(NamedTuple):
    """What a training is put together from, for its steps and its end."""

    trainer: Any
    selection: CheckpointSelection
    checks: CheckLog[Any]
    processor: Any
    held_out: Sequence[Any]
    """The rows that a check asks about."""
    asked: Sequence[dict[str, Any]]
    """Their questions."""
    notes: list[str]


class MonitoredRun(TrainingRun, Generic[Row, Found]):
    """One training with a monitor."""

    kind: ClassVar[str]
    """What the report calls it, such as "preference training"."""
    unit: ClassVar[str]
    """What its rows are called: "rows" or "pairs"."""
    free_to_change: ClassVar[set[str]]
    """Settings that a stopped training may go on with changed."""

    data: TrainingData[Row]
    settings: Any
    """Settings with `max_completion_length` and `check_batch`."""

    @property
    @abstractmethod
    def monitored(self) -> MonitoredTask[Row, Found]:
        """The task."""

    @abstractmethod
    def lines(self, rows: Sequence[Row]) -> Iterable[str]:
        """The rows as lines of JSON, over which digests are taken."""

    @abstractmethod
    def prepare(self) -> Parts:
        """Load the model and put the trainer together."""

    @abstractmethod
    def answered(self, row: Row, question: dict[str, Any], before: str, after: str) -> Answered:
        """A held-out row with its first and last answer, for the report."""

    def train(self, parts: Parts) -> None:
        """Train from where a stopped training was."""
        self.train_from(parts.trainer, parts.selection.resumed)

    def judges(self) -> Mapping[str, Any]:
        """Who judges, for the report."""
        return self.monitored.identity()

    def more_settings(self) -> Sequence[BaseModel]:
        """Settings that the report shows in addition to the training's own."""
        return ()

    @property
    def prompt_set(self) -> PromptSet:
        """The prompt set that the agent is trained with."""
        return prompt_set_of(self.checkpoint) or default_prompt_set()

    def finished(self) -> Path:
        return ended(self.out, self.log)

    def description(self) -> dict[str, Any]:
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
        record = record_of(self.out, self.prompt_set, self.settings.image_pixels)
        if selection.finished is None:
            self.train(parts)
        selection.keep()
        if trainer.accelerator.is_main_process:
            self._report(parts, trainer.state.log_history or logged(selection.last))
        dtype = self.settings.save_dtype
        save_trained(trainer, parts.processor, record, self.final, dtype, selection.finished)
        return selection.result()

    def monitor(
        self,
        trainer: Any,
        processor: Any,
        held_out: Sequence[Row],
        asked: Sequence[dict[str, Any]],
        watch: Any,
    ) -> tuple[CollapseMonitor, CheckLog[Found]]:
        """The monitor that asks `asked` at every checkpoint, and the log of its checks; `watch` measures the
        training between them."""
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
        return CollapseMonitor(check, checks, settings, watch, self.log, agreed(self.devices)), checks

    def _report(self, parts: Parts, history: list[dict[str, Any]]) -> None:
        known, data = self.description(), self.data
        counted = [
            (f"{self.unit} learned", len(data.rows), known["rows"]),
            (f"{self.unit} held out", len(data.held_out), known["held_out"]),
        ]
        TrainingReport(
            title=f"The {self.monitored.agent}'s {self.kind}",
            history=history,
            held_out=self.monitored.curves(parts.checks),
            answers=self._answered(parts),
            notes=parts.notes,
            stopped=parts.selection.monitor.stopped,
            made_of={
                "model": f"{self.checkpoint.name} (digest {known['model']})",
                **digests(counted),
                **self.judges(),
                "libraries": libraries(),
            },
            settings=shown_settings(self.settings, *self.more_settings()),
        ).write(self.out)
        parts.selection.write_result()

    def _answered(self, parts: Parts) -> list[Answered]:
        """The first held-out rows with the answers of the first check and of the last."""
        checks: list[HeldOutCheck] = list(parts.checks.all.values())
        if not checks:
            return []
        answers = zip(checks[0].answers, checks[-1].answers, strict=False)
        rows = zip(parts.held_out, parts.asked, answers, strict=False)
        return [self.answered(row, asked, *both) for row, asked, both in rows]

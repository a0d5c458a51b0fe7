"""Describes a finished fine-tuning, for its report and its model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...backend.checkpoints.checkpoint import checkpoint_digest
from ...backend.prompts.agent_card import Role
from ..data.rows.row_sets import RowSet
from ..trainer.report.card_facts import CardFacts, made_with, origin_of, rows_of, setting_facts
from ..trainer.report.html_report import Answered, TrainingReport
from ..trainer.report.run_description import digests, libraries, shown_settings
from ..trainer.resume import digest_of, step_of
from .held_out_loss import measured_losses
from .settings import SftTraining


@dataclass(frozen=True)
class Described:
    """A fine-tuning: its start, settings, role, notes, and the rows that were trained on and measured."""

    checkpoint: Path
    settings: SftTraining
    role: Role | None
    notes: Sequence[str]
    rows: RowSet
    measured: RowSet

    def facts(self) -> CardFacts:
        """Return the facts for the model card."""
        return CardFacts(
            stage="sft",
            role=self.role,
            base=origin_of(self.checkpoint),
            rows=rows_of(self._counted()),
            settings=setting_facts(shown_settings(self.settings)),
            made_with=made_with({}),
            notes=tuple(self.notes),
        )

    def report(self, history: Sequence[Mapping[str, Any]], answers: Sequence[Answered]) -> TrainingReport:
        """Return the report, given the trainer's log and the sampled answers."""
        # The model card has the notes too, but no answers.
        below = f"The {len(answers)} answers below are to rows that were not trained on."
        return TrainingReport(
            title="Supervised fine-tuning",
            history=history,
            answers=answers,
            notes=[*self.notes, *([below] if answers else [])],
            made_of={
                "model": f"{self.checkpoint.name} (digest {checkpoint_digest(self.checkpoint)})",
                **digests(self._counted()),
                "libraries": libraries(),
            },
            settings=shown_settings(self.settings),
        )

    def _counted(self) -> list[tuple[str, int, str]]:
        """Return name, number and digest of the rows."""
        named = {"training rows": self.rows, "rows whose loss was measured": self.measured}
        return [
            (name, len(rows.rows), digest_of(row.line() for row in rows.rows))
            for name, rows in named.items()
            if rows.rows
        ]


def ending(history: Sequence[Mapping[str, Any]], whole_steps: int, chosen: Path | None) -> list[str]:
    """Return a note on how the training ended and which checkpoint was used, if a loss decided it."""
    losses = measured_losses(history)
    if not losses or chosen is None:
        return []
    last = max(losses)
    ended = f"Stopped at step {last} of {whole_steps}" if last < whole_steps else "Trained to the end"
    best = step_of(chosen)
    if best not in losses:
        return []
    return [f"{ended}; used step {best}, with a held-out loss of {losses[best]:.4f}"]

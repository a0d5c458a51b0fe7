"""Rows of a fine-tuning: those to train on, those whose loss is measured, those whose answers are shown.

A row that is measured or shown is never trained on. The rows of the regression gate are shown but not
measured: the measured loss chooses the checkpoint, and the gate's rows must not influence that choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...backend.errors import SettingsError
from ...backend.prompts.agent_card import Role
from ..data.rows.row_sets import RowSet
from .answers import hold_out
from .settings import SftTraining

FINAL = "final"
"""Name of the folder of the finished checkpoint."""


@dataclass(frozen=True)
class SftData:
    """Rows of a fine-tuning and the name of its result's folder.

    Attributes:
        rows: Rows to train on.
        held_out: Rows whose answers the report shows. Default: a few of `rows`, which are then not trained
            on.
        skip_bad: Leave out rows that cannot be used instead of raising an error.
        name: Name of the result's folder.
        measured: Rows whose loss is measured. Default: a few of `rows` if the settings ask for it, which are
            then not trained on.
        role: Job of the trained agent, for its card. `None` leaves it open.
    """

    rows: RowSet
    held_out: RowSet | None = None
    skip_bad: bool = False
    name: str = FINAL
    measured: RowSet | None = None
    role: Role | None = None

    @property
    def shown(self) -> RowSet:
        """Rows whose answers the report shows."""
        return self.held_out or RowSet([], self.rows.folder)

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
            raise SettingsError(
                "--early-stopping-patience needs a held-out loss.", "Set --loss-rows as well."
            )
        folder, measured, held_out = self.rows.folder, self.measured, self.held_out
        spare = max(loss_rows if measured is None else 0, settings.samples if held_out is None else 0)
        rows, spared = hold_out(self.rows.rows, spare)
        if measured is None:
            measured = RowSet(spared[:loss_rows], folder)
        if held_out is None:
            held_out = RowSet(spared[: settings.samples], folder)
        measured = RowSet(measured.rows[:loss_rows], measured.folder)
        if settings.early_stopping_patience and not measured.rows:
            raise SettingsError(
                f"{len(self.rows.rows)} rows are too few to hold any out for --early-stopping-patience.",
                "Give more rows, or omit the option.",
            )
        return replace(self, rows=RowSet(rows, folder), held_out=held_out, measured=measured)

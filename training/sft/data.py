"""The rows of a fine-tuning: those that are learned, those whose loss is measured, those whose answers are
shown.

Decision: a row that is measured or shown is never learned. A gate's own rows are shown and not measured: the
checkpoint that the measured loss chooses must not have been chosen by the rows that examine it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...backend.errors import SettingsError
from ..data.rows.row_sets import RowSet
from .answers import hold_out
from .settings import SftTraining

FINAL = "final"
"""Folder of a finished checkpoint, from which it is used."""


@dataclass(frozen=True)
class SftData:
    """The rows of a fine-tuning, those whose answers its page shows, the name of its result's folder, and the
    rows whose loss is measured.

    Without `held_out` rows a few of `rows` are shown, without `measured` ones a few are measured if asked
    for, and neither are trained on. Rows that cannot be used are left out if `skip_bad`, else an error."""

    rows: RowSet
    held_out: RowSet | None = None
    skip_bad: bool = False
    name: str = FINAL
    measured: RowSet | None = None

    @property
    def shown(self) -> RowSet:
        """The rows whose answers the page shows."""
        return self.held_out or RowSet([], self.rows.folder)

    @property
    def losses(self) -> RowSet:
        """The rows whose loss is measured."""
        return self.measured or RowSet([], self.rows.folder)

    def with_held_out(self, settings: SftTraining) -> SftData:
        """The same data with rows held out for what the settings ask for and is not given.

        Raises SettingsError for a patience without rows to measure."""
        wanted = settings.loss_rows or 0
        if settings.early_stopping_patience and not wanted:
            raise SettingsError(
                "--early-stopping-patience has no held-out loss to look at.", "Give --loss-rows as well."
            )
        folder, measured, held_out = self.rows.folder, self.measured, self.held_out
        spare = max(wanted if measured is None else 0, settings.samples if held_out is None else 0)
        rows, spared = hold_out(self.rows.rows, spare)
        if measured is None:
            measured = RowSet(spared[:wanted], folder)
        if held_out is None:
            held_out = RowSet(spared[: settings.samples], folder)
        measured = RowSet(measured.rows[:wanted], measured.folder)
        if settings.early_stopping_patience and not measured.rows:
            raise SettingsError(
                f"{len(self.rows.rows)} rows are too few to hold any out: "
                "--early-stopping-patience has no loss to look at.",
                "Give more rows, or leave it out.",
            )
        return replace(self, rows=RowSet(rows, folder), held_out=held_out, measured=measured)

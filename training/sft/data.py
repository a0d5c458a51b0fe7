"""Rows of a fine-tuning: those to train on, and those whose loss is measured and that are not trained on.

The rows of the regression gate are not among them: the measured loss chooses the checkpoint, and the gate's
rows must not influence that choice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...backend.errors import SettingsError
from ...backend.feedback.sft_row import SftRow
from ...backend.prompts.agent_card import Role
from ..data.rows.sft import RowSet
from .settings import SftTraining

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
            raise SettingsError(
                "--early-stopping-patience needs a held-out loss.", "Set --loss-rows as well."
            )
        folder, measured = self.rows.folder, self.measured
        rows, spared = hold_out(self.rows.rows, loss_rows if measured is None else 0)
        measured = measured or RowSet(spared, folder)
        measured = RowSet(measured.rows[:loss_rows], measured.folder)
        if settings.early_stopping_patience and not measured.rows:
            raise SettingsError(
                f"{len(self.rows.rows)} rows are too few to hold any out for --early-stopping-patience.",
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
    parts = [*(f"{turn.role}:{turn.content}" for turn in row.messages[:-1]), *row.images]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

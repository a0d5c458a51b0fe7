"""Settings of supervised fine-tuning (SFT), and its rows: to train on, and to measure the loss on.

Settings that were added later default to None, so that a training that was started before they existed can be
resumed.

The rows of the regression gate are not among the measured ones: the measured loss chooses the checkpoint, and
the gate's rows must not influence that choice.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from ...backend.core.errors import SettingsError
from ...backend.core.prompts.agent_card import Role
from ...backend.core.types.values import DIRECT
from ...backend.output.feedback.sft_rows import SftRow
from ..rows.sft import RowSet
from ..trainer.model_loading import ModelTraining

FREE_TO_CHANGE = {
    "device",
    "save_steps",
    "dataloader_num_workers",
    "tensorboard",
    "report_to",
    "save_dtype",
}
"""Settings that may change when a training is resumed."""


class SftTraining(ModelTraining):
    """Settings of supervised fine-tuning (SFT). The published runs are in the recipe paper-8b."""

    num_train_epochs: float = Field(
        default=2.0, gt=0, description="Number of passes over the data.", json_schema_extra=DIRECT
    )
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="Stop after this many optimizer steps, at most those of the epochs. Default: the steps "
        "of the epochs.",
        json_schema_extra=DIRECT,
    )
    per_device_train_batch_size: int = Field(
        default=32, ge=1, description="Rows per forward pass and device.", json_schema_extra=DIRECT
    )
    gradient_accumulation_steps: int = Field(default=1, ge=1, description="Micro-batches per optimizer step.")
    max_length: int = Field(
        default=16384,
        ge=16,
        description="Maximum length of a row in tokens, images included. Longer rows are an error.",
    )
    save_steps: int = Field(default=500, ge=1, description="Optimizer steps between checkpoints.")
    dataloader_num_workers: int = Field(
        default=0, ge=0, description="Worker processes that load and prepare images."
    )
    train_sampling_strategy: Literal["random", "sequential"] = Field(
        default="random",
        description="Order of the rows: shuffled in each epoch, or as in the file (for a curriculum).",
    )
    loss_rows: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Held-out rows whose loss is measured at every checkpoint, from a planner's --held-out "
        "or else from the data (at most one row in 20). Default: none.",
    )
    early_stopping_patience: int | None = Field(
        default=None,
        ge=1,
        description="Stop after this many checkpoints without a lower held-out loss, and use the checkpoint "
        "with the lowest. Default: train to the end and use the last checkpoint.",
    )

    def optimizer_steps(self, rows: int, devices: int = 1) -> int:
        """Return the number of optimizer steps of a training on `rows` rows."""
        batches = math.ceil(rows / (self.per_device_train_batch_size * devices))
        steps = math.ceil(math.ceil(batches / self.gradient_accumulation_steps) * self.num_train_epochs)
        return min(steps, self.max_steps or steps)

    def rows_per_step(self, devices: int) -> int:
        """Return the number of rows of one optimizer step."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps * devices


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
            raise SettingsError("early_stopping_patience needs a held-out loss.", "Set loss_rows as well.")
        folder, measured = self.rows.folder, self.measured
        rows, spared = hold_out(self.rows.rows, loss_rows if measured is None else 0)
        measured = measured or RowSet(spared, folder)
        measured = RowSet(measured.rows[:loss_rows], measured.folder)
        if settings.early_stopping_patience and not measured.rows:
            raise SettingsError(
                f"{len(self.rows.rows)} rows are too few to hold any out for early_stopping_patience.",
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

"""Settings of supervised fine-tuning (SFT).

Settings that were added later default to None, so that a training that was started before they existed can be
resumed.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

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

    num_train_epochs: float = Field(default=2.0, gt=0, description="Number of passes over the data.")
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="Stop after this many optimizer steps, at most those of the epochs. Default: the steps "
        "of the epochs.",
    )
    per_device_train_batch_size: int = Field(
        default=32, ge=1, description="Rows per forward pass and device."
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

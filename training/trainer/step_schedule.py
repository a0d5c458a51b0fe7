"""Settings of epochs, steps and batches that fine-tuning and preference training share."""

from __future__ import annotations

import math

from pydantic import Field

from .model_loading import ModelTraining


class StepSchedule(ModelTraining):
    """Settings that determine the number of optimizer steps."""

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

    def optimizer_steps(self, rows: int, devices: int = 1) -> int:
        """Return the number of optimizer steps of a training on `rows` rows."""
        batches = math.ceil(rows / (self.per_device_train_batch_size * devices))
        steps = math.ceil(math.ceil(batches / self.gradient_accumulation_steps) * self.num_train_epochs)
        return min(steps, self.max_steps or steps)

    def rows_per_step(self, devices: int) -> int:
        """Return the number of rows of one optimizer step."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps * devices

"""Settings of epochs, steps and batches that fine-tuning and preference training share."""

from __future__ import annotations

import math

from pydantic import Field

from .model_loading import ModelTraining


class StepSchedule(ModelTraining):
    """Settings that determine the number of optimizer steps."""

    num_train_epochs: float = Field(default=2.0, gt=0, description="Passes over the data.")
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="Optimiser steps after which it ends, with the learning rate at its end; empty: those of "
        "the epochs. Never more than these.",
    )
    per_device_train_batch_size: int = Field(
        default=32, ge=1, description="Rows in one forward pass on one device."
    )
    gradient_accumulation_steps: int = Field(default=1, ge=1, description="Such batches per optimiser step.")
    max_length: int = Field(
        default=16384, ge=16, description="Longest row in tokens, images included; longer ones are an error."
    )
    save_steps: int = Field(default=500, ge=1, description="Steps between resumable checkpoints.")
    dataloader_num_workers: int = Field(
        default=0, ge=0, description="Processes that read and prepare images."
    )

    def optimizer_steps(self, rows: int, devices: int = 1) -> int:
        """Return the number of optimizer steps of a training on `rows` rows."""
        batches = math.ceil(rows / (self.per_device_train_batch_size * devices))
        steps = math.ceil(math.ceil(batches / self.gradient_accumulation_steps) * self.num_train_epochs)
        return min(steps, self.max_steps or steps)

    def rows_per_step(self, devices: int) -> int:
        """Return the number of rows of one optimizer step."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps * devices

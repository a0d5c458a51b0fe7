"""Settings of supervised fine-tuning, and how many steps follow from them.

Decision: what was added later is None where it is not set, so that a training that was begun before it
existed goes on as the same one.
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
    "samples",
    "sample_tokens",
}
"""Settings that change nothing of what a stopped training goes on with."""


class SftTraining(ModelTraining):
    """Settings of supervised fine-tuning. The published runs are in the recipe paper-8b."""

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
    train_sampling_strategy: Literal["random", "sequential"] = Field(
        default="random",
        description="Order of the rows: another one in each epoch, or as the file has them (a curriculum).",
    )
    save_steps: int = Field(default=500, ge=1, description="Steps between resumable checkpoints.")
    loss_rows: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Held-out rows whose loss is measured at every checkpoint: of a planner's --held-out, "
        "else taken out of the data (one of 20 at most); empty: none.",
    )
    early_stopping_patience: int | None = Field(
        default=None,
        ge=1,
        description="Stop after so many checkpoints without a lower held-out loss, and take the checkpoint "
        "with the lowest; empty: train to the end and take the last.",
    )
    dataloader_num_workers: int = Field(
        default=0, ge=0, description="Processes that read and prepare images."
    )
    samples: int = Field(
        default=4,
        ge=0,
        le=50,
        description=(
            "Rows that are not trained on and whose answers before and after are shown on the end page."
        ),
    )
    sample_tokens: int = Field(default=1024, ge=16, description="Longest such answer, in tokens.")


def steps_in_all(settings: SftTraining, rows: int, devices: int = 1) -> int:
    """Optimiser steps of a training on so many rows."""
    an_epoch = math.ceil(
        math.ceil(rows / (settings.per_device_train_batch_size * devices))
        / settings.gradient_accumulation_steps
    )
    steps = math.ceil(an_epoch * settings.num_train_epochs)
    return min(steps, settings.max_steps or steps)

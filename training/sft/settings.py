"""Settings of supervised fine-tuning.

Decision: what was added later is None where it is not set, so that a training that was begun before it
existed goes on as the same one.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..trainer.step_schedule import StepSchedule

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


class SftTraining(StepSchedule):
    """Settings of supervised fine-tuning. The published runs are in the recipe paper-8b."""

    train_sampling_strategy: Literal["random", "sequential"] = Field(
        default="random",
        description="Order of the rows: another one in each epoch, or as the file has them (a curriculum).",
    )
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
    samples: int = Field(
        default=4,
        ge=0,
        le=50,
        description=(
            "Rows that are not trained on and whose answers before and after are shown on the end page."
        ),
    )
    sample_tokens: int = Field(default=1024, ge=16, description="Longest such answer, in tokens.")

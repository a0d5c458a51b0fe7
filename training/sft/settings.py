"""Settings of supervised fine-tuning (SFT).

Settings that were added later default to None, so that a training that was started before they existed can be
resumed.
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
"""Settings that may change when a training is resumed."""


class SftTraining(StepSchedule):
    """Settings of supervised fine-tuning (SFT). The published runs are in the recipe paper-8b."""

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
    samples: int = Field(
        default=4,
        ge=0,
        le=50,
        description="Held-out rows whose answers before and after the training the report shows.",
    )
    sample_tokens: int = Field(default=1024, ge=16, description="Maximum length of these answers, in tokens.")

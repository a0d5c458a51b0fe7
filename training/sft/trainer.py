"""trl's SFT trainer with one thing added: rows in the order of their file, for a curriculum.

Decision: this module needs trl and is imported by what trains alone.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import SequentialSampler
from trl.trainer.sft_trainer import SFTTrainer


class RowTrainer(SFTTrainer):
    """trl's trainer; `ordered` takes the rows as they come."""

    def __init__(self, ordered: bool, **options: Any) -> None:
        self.ordered = ordered
        super().__init__(**options)

    def _get_train_sampler(self, *arguments: Any, **options: Any) -> Any:
        if self.ordered:
            return SequentialSampler(self.train_dataset)  # pyright: ignore[reportArgumentType]
        return super()._get_train_sampler(*arguments, **options)

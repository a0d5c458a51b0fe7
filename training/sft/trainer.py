"""trl's SFT trainer with two things added: rows in the order of their file, for a curriculum, and losses that
do not depend on how rows are split into batches.

Decisions. The loss is the mean over all learned tokens of an optimizer step, over its micro-batches and over
all ranks. trl divides by their number if the trainer counts them, but transformers does not count for models
that say `accepts_loss_kwargs = False` (Qwen3-VL and most others with images), so the count is switched on
here. The held-out loss is the mean over all tokens of its rows, for the same reason. The rows that accelerate
repeats to fill the last batch of every rank are neither learned nor measured twice. This module needs trl and
is imported by what trains alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import SequentialSampler
from trl.trainer.sft_trainer import SFTTrainer

from .collator import IGNORE_INDEX


class RowTrainer(SFTTrainer):
    """trl's trainer with losses per token; `ordered` takes the rows as they come."""

    def __init__(self, ordered: bool, **options: Any) -> None:
        self.ordered = ordered
        self._measured = (0.0, 0)
        """Sum of the held-out loss over tokens, and their number, on this rank."""
        super().__init__(**options)
        self.model_accepts_loss_kwargs = True

    def _get_train_sampler(self, *arguments: Any, **options: Any) -> Any:
        if self.ordered:
            return SequentialSampler(self.train_dataset)  # pyright: ignore[reportArgumentType]
        return super()._get_train_sampler(*arguments, **options)

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> Any:
        """Return the micro-batches of an optimizer step and their number of learned tokens on all ranks."""
        rows, size = len(self.train_dataset), self.args.per_device_train_batch_size  # pyright: ignore[reportArgumentType]
        batches = (self._without_repeats(batch, rows, size) for batch in epoch_iterator)
        return super().get_batch_samples(batches, num_batches, device)

    def prediction_step(
        self, model: Any, inputs: Any, *arguments: Any, **options: Any
    ) -> tuple[Any, None, None]:
        """Measure the mean loss of a held-out batch, and add it to the sum over tokens."""
        rows, size = len(self.eval_dataset), self.args.per_device_eval_batch_size  # pyright: ignore[reportArgumentType]
        inputs = self._prepare_inputs(self._without_repeats(inputs, rows, size))
        tokens = int((inputs["labels"][:, 1:] != IGNORE_INDEX).sum())
        with torch.no_grad(), self.compute_loss_context_manager():
            loss: Any = self.compute_loss(model, inputs)
        if tokens:
            total, counted = self._measured
            self._measured = total + float(loss) * tokens, counted + tokens
        return loss, None, None

    def evaluation_loop(self, *arguments: Any, metric_key_prefix: str = "eval", **options: Any) -> Any:
        """Measure all held-out rows; their loss is the mean over the tokens of all batches and ranks."""
        self._measured = (0.0, 0)
        found: Any = super().evaluation_loop(*arguments, metric_key_prefix=metric_key_prefix, **options)
        here = torch.tensor(self._measured, dtype=torch.float32, device=self.accelerator.device)
        summed: Any = self.accelerator.reduce(here, "sum")
        total, tokens = summed.tolist()
        found.metrics[f"{metric_key_prefix}_loss"] = total / tokens if tokens else math.nan
        return found

    def _without_repeats(self, batch: Any, rows: int, size: int) -> Any:
        """Take the labels of repeated rows out of the last batch of `rows` rows, `size` a rank's batch."""
        state, ranks = self.accelerator.gradient_state, self.accelerator.num_processes
        left = rows % (size * ranks)
        if ranks > 1 and left and state.end_of_dataloader:
            batch["labels"][max(0, left - self.accelerator.process_index * size) :] = IGNORE_INDEX
        return batch

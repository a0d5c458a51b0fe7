"""trl's SFT trainer with two additions: rows in file order (for a curriculum), losses averaged over tokens.

The loss is the mean over all learned tokens of an optimizer step, over its micro-batches and all ranks. trl
divides by this number of tokens if the trainer counts them. transformers does not count them for models with
`accepts_loss_kwargs = False` (Qwen3-VL and most other vision-language models), so counting is enabled here.
The held-out loss is the mean over all tokens of its rows, for the same reason. Rows that accelerate repeats
to fill the last batch of each rank are neither learned nor measured twice. This module needs trl, so only
training code imports it.
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
    """SFT trainer with losses averaged over tokens; with `ordered` it keeps the order of the rows."""

    def __init__(self, ordered: bool, **options: Any) -> None:
        self.ordered = ordered
        self._measured = (0.0, 0)
        """Sum of the held-out loss over tokens, and the number of tokens, on this rank."""
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
        """Measure the mean loss of a held-out batch, and add it to the sum over tokens.

        Returns:
            (loss as a scalar tensor, None, None).
        """
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
        """Measure all held-out rows; the loss is the mean over the tokens of all batches and ranks."""
        self._measured = (0.0, 0)
        found: Any = super().evaluation_loop(*arguments, metric_key_prefix=metric_key_prefix, **options)
        here = torch.tensor(self._measured, dtype=torch.float32, device=self.accelerator.device)
        summed: Any = self.accelerator.reduce(here, "sum")
        total, tokens = summed.tolist()
        found.metrics[f"{metric_key_prefix}_loss"] = total / tokens if tokens else math.nan
        return found

    def _without_repeats(self, batch: Any, rows: int, size: int) -> Any:
        """Mask the labels of repeated rows in the last batch of a dataset.

        Args:
            batch: Batch whose `labels` have the shape `(size, tokens)`.
            rows: Number of rows of the dataset.
            size: Batch size of a rank.
        """
        state, ranks = self.accelerator.gradient_state, self.accelerator.num_processes
        left = rows % (size * ranks)
        if ranks > 1 and left and state.end_of_dataloader:
            batch["labels"][max(0, left - self.accelerator.process_index * size) :] = IGNORE_INDEX
        return batch

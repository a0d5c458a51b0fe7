"""trl's DPO trainer, its configuration, and a collator that scales images as the running agents do.

The reference model is the starting model: with an adapter, the same weights with the adapter disabled;
otherwise a second copy that trl loads from the checkpoint's folder (trl cannot precompute log-probabilities
for rows with images). Every pair of an optimizer step has the same weight, and so does every chosen token of
`--sft-loss-weight`, in whichever micro-batch it is; trl itself averages the means of the micro-batches.
`max_length` is disabled because rows were measured before and trl would silently truncate answers. This
module needs trl, so only training code imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer

from ...backend.chat.image_limits import MAX_PIXELS, scaled_down
from ...backend.pictures import Picture
from ..trainer.model_loading import trainer_arguments
from ..trainer.report.progress_line import number
from .settings import DpoTraining

RARER = 20.0
"""Decrease in log-probability of held-out chosen answers, in nats, that causes a warning."""


def config_of(settings: DpoTraining, steps: Path, steps_in_all: int, report_to: list[str]) -> DPOConfig:
    """Return the configuration of trl's trainer. Call it before the model is loaded (see `load_policy`)."""
    losses: list[str] = [settings.loss_type]
    weights = [1.0]
    if settings.sft_loss_weight:
        losses.append("sft")
        weights.append(settings.sft_loss_weight)
    own: dict[str, Any] = {
        "max_steps": steps_in_all if settings.max_steps else -1,
        "per_device_eval_batch_size": settings.per_device_train_batch_size,
        "lr_scheduler_type": "cosine",
        "loss_type": losses,
        "loss_weights": weights,
        "max_length": None,
        "remove_unused_columns": False,
        "eval_strategy": "steps",
        "eval_steps": settings.save_steps,
        "prediction_loss_only": True,
        "logging_steps": max(1, min(20, int(steps_in_all / 10))),
        "report_to": report_to,
    }
    return DPOConfig(**trainer_arguments(settings, DPOConfig, steps, steps_in_all) | own)


class PairTrainer(DPOTrainer):
    """DPO trainer whose losses are means over all pairs and all chosen tokens of an optimizer step."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._whole_weights = list(self.loss_weights)
        self._in_step: Any = None
        """Pairs and chosen tokens of the optimizer step on all ranks, a tensor of the shape `(2,)`."""

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> Any:
        """Return the micro-batches of an optimizer step, after counting their pairs and tokens."""
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        here = sum((_counted(batch) for batch in batches), torch.zeros(2)).to(device)
        self._in_step = self.accelerator.reduce(here, "sum").cpu()  # pyright: ignore[reportAttributeAccessIssue]
        return batches, items

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        """Return trl's loss as a scalar tensor, its parts weighted by the micro-batch's share of the step."""
        self.loss_weights = self._whole_weights
        if model.training:
            parts = self.current_gradient_accumulation_steps * self.accelerator.num_processes
            shares = (_counted(inputs) / self._in_step * parts).tolist()
            self.loss_weights = [one * share for one, share in zip(self._whole_weights, shares, strict=False)]
        return super().compute_loss(model, inputs, *arguments, **options)


def _counted(batch: Any) -> torch.Tensor:
    """Return the number of pairs and of tokens of their chosen answers, a tensor of the shape `(2,)`.

    The batch's `completion_mask` has the shape `(2 * pairs, tokens)`, with the chosen answers first.
    """
    chosen, _ = batch["completion_mask"].chunk(2, dim=0)
    return torch.tensor([float(len(chosen)), float(chosen[:, 1:].sum())])


class ShownPairs:
    """Wraps trl's `collator`: scales images down as the running agents do, and to at most `pixels`."""

    def __init__(self, collator: Callable[[list[dict[str, Any]]], Any], pixels: int) -> None:
        self.collator = collator
        self.pixels = min(pixels, MAX_PIXELS)

    def __call__(self, examples: list[dict[str, Any]]) -> Any:
        """Return trl's batch of these examples."""
        for example in examples:
            example["images"] = [scaled_down(Picture(one), self.pixels).image for one in example["images"]]
        return self.collator(examples)


class PairWatch(TrainerCallback):
    """Logs how well held-out pairs are separated, whenever they are measured.

    It also provides a warning for the monitor if the chosen answers themselves become unlikely, which the
    loss allows.
    """

    problem: str | None = None
    problem_at_end: str | None = None

    def __init__(self, log: Callable[[str], None], beta: float) -> None:
        self.log = log
        self.beta = beta
        self.warning: str | None = None

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, Any] | None = None, **rest: Any
    ) -> None:
        """Log the measures of the held-out pairs."""
        found = metrics or {}
        accuracy, margin = number(found, "eval_rewards/accuracies"), number(found, "eval_rewards/margins")
        chosen, loss = number(found, "eval_rewards/chosen"), number(found, "eval_loss")
        if accuracy is None or margin is None or chosen is None or loss is None:
            self.log(f"step {state.global_step} held-out pairs: the loss is not finite")
            return
        change = chosen / self.beta
        self.log(
            f"step {state.global_step} held-out pairs: accuracy {accuracy:.2f}, margin {margin:.3f}, loss "
            f"{loss:.4f}, log-probability of chosen answers {change:+.1f} nats"
        )
        self.warning = (
            f"the log-probability of held-out chosen answers has fallen by {-change:.0f} nats since the "
            "start; set --sft-loss-weight to prevent this"
            if change < -RARER
            else None
        )

"""Logs the held-out loss during fine-tuning and stops the training early.

This module needs transformers, so only training code imports it. The decision itself is made in
held_out_loss.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from .held_out_loss import is_to_stop, lowest, measured_losses

Log = Callable[[str], None]


class HeldOutLoss(TrainerCallback):
    """Logs the held-out loss and stops the training after `patience` measurements without a lower one.

    With `patience=None` it never stops the training.
    """

    def __init__(self, log: Log, patience: int | None) -> None:
        self.log = log
        self.patience = patience

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        """Log the loss that was just measured, and request a stop if it is time."""
        losses = measured_losses(state.log_history)
        best, step = lowest(losses), state.global_step
        if best is None or step not in losses:
            self.log(f"step {step} held out: the loss is not finite")
            return control
        known = "the lowest so far" if best == step else f"lowest {losses[best]:.4f} at step {best}"
        self.log(f"step {step} held out: loss {losses[step]:.4f} ({known})")
        if is_to_stop(losses, self.patience):
            count = sum(measured > best for measured in losses)
            self.log(f"STOPPING: no lower held-out loss at the {count} checkpoints since step {best}")
            control.should_training_stop = True
        return control

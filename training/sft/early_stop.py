"""Says the held-out loss while a fine-tuning runs, and ends it.

Decision: this module needs transformers and is imported by what trains alone; what it decides by is in
held_out_loss.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from .held_out_loss import is_to_stop, lowest, measured_losses

Log = Callable[[str], None]


class HeldOutLoss(TrainerCallback):
    """Says the loss on held-out rows whenever it is measured, and asks for a stop after `patience` of them
    without a lower one (None: never)."""

    def __init__(self, log: Log, patience: int | None) -> None:
        self.log = log
        self.patience = patience

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        losses = measured_losses(state.log_history)
        best, step = lowest(losses), state.global_step
        if best is None or step not in losses:
            self.log(f"step {step} held out: the loss is not a number")
            return control
        known = "the lowest so far" if best == step else f"lowest {losses[best]:.4f} at step {best}"
        self.log(f"step {step} held out: loss {losses[step]:.4f} ({known})")
        if is_to_stop(losses, self.patience):
            count = sum(measured > best for measured in losses)
            self.log(f"STOPPING: no lower held-out loss at {count} checkpoints since step {best}")
            control.should_training_stop = True
        return control

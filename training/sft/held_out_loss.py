"""Held-out loss: finds the checkpoint with the lowest one and decides when to stop.

Everything is computed from the trainer's own log, which is part of every checkpoint. A training that is
interrupted after deciding to stop therefore decides the same when it is resumed, without an additional file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..trainer.report.progress_line import number
from ..trainer.resume import is_whole

LOSS = "eval_loss"
"""Name of the held-out loss in the trainer's log."""


def measured_losses(history: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Return the held-out loss per training step, ordered by step. Non-finite values are dropped."""
    found: dict[int, float] = {}
    for entry in history:
        step, loss = number(entry, "step"), number(entry, LOSS)
        if step is not None and loss is not None:
            found[int(step)] = loss
    return dict(sorted(found.items()))


def lowest(losses: Mapping[int, float]) -> int | None:
    """Return the first step with the lowest loss."""
    return min(losses, key=lambda step: (losses[step], step), default=None)


def is_to_stop(losses: Mapping[int, float], patience: int | None) -> bool:
    """Return whether at least `patience` measurements follow the lowest one."""
    best = lowest(losses)
    return patience is not None and best is not None and sum(step > best for step in losses) >= patience


def best_checkpoint(steps: Path, losses: Mapping[int, float]) -> Path | None:
    """Return the complete checkpoint in `steps` with the lowest held-out loss, or None."""
    available = {step: loss for step, loss in losses.items() if is_whole(steps / f"checkpoint-{step}")}
    best = lowest(available)
    return None if best is None else steps / f"checkpoint-{best}"

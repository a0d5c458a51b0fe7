"""The loss on rows that are not trained on: which checkpoint had the lowest, and when to stop.

Decision: everything follows from the trainer's own log, which lies in every checkpoint. So a training that
was killed after it had decided to stop decides the same when it is started again, and no file is needed
beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..trainer.report.progress_line import number
from ..trainer.resume import is_whole

LOSS = "eval_loss"
"""As the trainer logs it."""


def measured_losses(history: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Held-out losses by step, in the order of steps; what is not a number is none."""
    found: dict[int, float] = {}
    for entry in history:
        step, loss = number(entry, "step"), number(entry, LOSS)
        if step is not None and loss is not None:
            found[int(step)] = loss
    return dict(sorted(found.items()))


def lowest(losses: Mapping[int, float]) -> int | None:
    """The first step with the lowest loss."""
    return min(losses, key=lambda step: (losses[step], step), default=None)


def is_to_stop(losses: Mapping[int, float], patience: int | None) -> bool:
    """Whether so many measurements have passed since the lowest one."""
    best = lowest(losses)
    return patience is not None and best is not None and sum(step > best for step in losses) >= patience


def best_checkpoint(steps: Path, losses: Mapping[int, float]) -> Path | None:
    """The whole checkpoint below `steps` with the lowest measured loss; None if no measured one is there."""
    there = {step: loss for step, loss in losses.items() if is_whole(steps / f"checkpoint-{step}")}
    best = lowest(there)
    return None if best is None else steps / f"checkpoint-{best}"

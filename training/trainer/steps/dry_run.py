"""Dry run of a training: a few timed steps on weights that are then discarded, in a temporary folder.

A command asks for it around the call that trains (`dry_runs`), so that everything before the first step is
exactly what a training does: the same checks of rows, models and judges, and the same first check on held-out
rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

STEPS = 3
"""Timed steps, rounded up to whole rollouts."""
GB = 1e9
Memory = Callable[[Path, Any, int], Iterable[str]]
"""Returns lines about the memory of a training, given checkpoint, settings and number of devices."""
planned: ContextVar[Memory | None] = ContextVar("planned", default=None)
"""The memory estimate if trainings in this context are dry runs, else None."""


@contextmanager
def dry_runs(memory: Memory) -> Iterator[None]:
    """Make every training in the block a dry run."""
    token = planned.set(memory)
    try:
        yield
    finally:
        planned.reset(token)


@dataclass(frozen=True)
class Prepared:
    """A training that is ready to begin.

    Attributes:
        trainer: Trainer with its model and data.
        steps: Planned optimizer steps.
        check: Runs one check on held-out rows; `None` without checks.
        checks: Planned number of checks.
    """

    trainer: Any
    steps: int
    check: Callable[[], object] | None
    checks: int


def timed(prepared: Prepared, whole: int) -> list[str]:
    """Make the timed steps, and return lines about time and memory.

    Args:
        prepared: The training.
        whole: Optimizer steps that belong together (GRPO: a rollout).
    """
    from .timed_steps import TimedSteps

    count = min(prepared.steps, math.ceil(STEPS / whole) * whole)
    timer = TimedSteps(count, prepared.check)
    prepared.trainer.add_callback(timer)
    prepared.trainer.train()
    lines = time_lines(timer.seconds, timer.check_seconds, prepared, whole)
    found = peak_memory(prepared.trainer)
    return [*lines, f"peak memory until then: {found}"] if found else lines


def time_lines(
    seconds: Sequence[float], check_seconds: float, prepared: Prepared, whole: int = 1
) -> list[str]:
    """Return lines about the measured and the estimated time.

    Args:
        seconds: Seconds of each timed step.
        check_seconds: Seconds of a check.
        prepared: The training.
        whole: Optimizer steps that belong together.
    """
    parts = [sum(seconds[start : start + whole]) for start in range(0, len(seconds), whole)]
    what = "rollouts" if whole > 1 else "steps"
    shown = ", ".join(f"{one:.2f}" for one in parts)
    lines = [f"timed: {len(parts)} {what} took {shown} s"]
    number = math.ceil(prepared.steps / whole)
    in_checks, checks = 0.0, ""
    if prepared.check is not None:
        lines.append(
            f"timed: a check on held-out rows took {check_seconds:.2f} s; {prepared.checks} are planned"
        )
        in_checks, checks = check_seconds * prepared.checks, " and the checks"
    estimate, least, most = (clock(of(parts) * number + in_checks) for of in (median, min, max))
    lines.append(
        f"estimated time: {estimate} for {number} {what}{checks}; {least} at the speed of the fastest timed "
        f"one, {most} at that of the slowest. Loading, checkpoints and the gate "
        "are not included"
    )
    return lines


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds (1:02:03)."""
    minutes, rest = divmod(max(1, round(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def peak_memory(trainer: Any) -> str | None:
    """Return the peak memory of this process so far, or None where the system does not tell."""
    import torch

    if trainer.accelerator.device.type == "cuda":
        return f"{torch.cuda.max_memory_allocated() / GB:.2f} GB of VRAM"
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return (
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GB:.2f} GB of RAM, libraries included"
    )

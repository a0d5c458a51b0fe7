"""Chooses the checkpoint that a GRPO training resumes from, and the one it results in.

A training that had to stop still leaves its last good checkpoint as the result. It reports the stop as an
error, now and whenever the same command is run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...backend.errors import TrainingError
from ...backend.files.atomic import write_text
from ...backend.files.bounded_reader import read_json
from ..trainer.resume import newest_checkpoint, step_of

if TYPE_CHECKING:
    from .collapse_monitor import CollapseMonitor

RESULT_FILE = "result.json"
Log = Callable[[str], None]


class CheckpointSelection:
    """Checkpoints of a training in `out`: the one to resume from, and the one that becomes the result."""

    def __init__(self, out: Path, monitor: CollapseMonitor, steps: int, log: Log) -> None:
        """Find the newest checkpoint of a training of `steps` optimizer steps, unless the user ends it."""
        self.out, self.monitor, self.steps, self.log = out, monitor, steps, log
        self.resumed = newest_checkpoint(out / "steps")
        ended = monitor.ending is not None and monitor.ending.decided()
        done = self.resumed is not None and (ended or step_of(self.resumed) >= steps)
        self.finished: Path | None = self.resumed if done else None
        """Checkpoint to save, or None to save the weights in memory."""
        self.last: Path | None = None
        """Newest complete checkpoint after the training."""

    def keep(self) -> None:
        """Decide which checkpoint is saved.

        Raises:
            TrainingError: The reward or judge is unavailable, or the training had to stop before its first
                checkpoint.
        """
        monitor, self.last = self.monitor, newest_checkpoint(self.out / "steps")
        if monitor.outage is not None:
            step = step_of(self.last) if self.last else 0
            raise TrainingError(
                f"Training stopped: {monitor.outage.rstrip('.')}.",
                f"Fix the problem, then run the same command again to resume from step {step}.",
            )
        if monitor.stopped is None:
            return
        if self.last is None:
            raise TrainingError(
                f"Training stopped before its first checkpoint: {monitor.stopped}.",
                "Nothing was saved. Start again with other settings.",
            )
        self.finished = self.last
        self.log(f"keeping the checkpoint of step {step_of(self.last)}, the last good one")

    def write_result(self) -> None:
        """Write the outcome of the training in its folder."""
        result = json.dumps({"stopped": self.monitor.stopped, "steps": self.steps})
        write_text(self.out / RESULT_FILE, result + "\n", TrainingError, "The training's result")

    def result(self) -> Path:
        """Return the folder of the finished checkpoint.

        Raises:
            TrainingError: The training had to stop.
        """
        return _ended(self.out, self.monitor.stopped, "Training stopped")


def ended(out: Path, log: Log) -> Path:
    """Return the result of a training that ended earlier.

    Raises:
        TrainingError: The training had to stop.
    """
    result = read_json(out / RESULT_FILE, TrainingError, "Result")
    final = _ended(out, result.get("stopped") if isinstance(result, dict) else None, "This training stopped")
    log("this training is finished")
    return final


def _ended(out: Path, stopped: str | None, what: str) -> Path:
    final = out / "final"
    if stopped:
        raise TrainingError(f"{what}: {stopped}.", f"The last good checkpoint is in {str(final)!r}.")
    return final

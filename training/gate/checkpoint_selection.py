"""How a training ends that a monitor watches, reinforcement's and preference training's alike: where a
stopped one goes on, which checkpoint is kept, and what is left for whoever asks again.

Decision: a training that had to stop still leaves its last good checkpoint as the result, and says so as an
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
    """The checkpoints of a training in `out`: the one that it goes on from, the one that it ends with."""

    def __init__(self, out: Path, monitor: CollapseMonitor, steps: int, log: Log) -> None:
        """`steps`: how many optimiser steps there are in all."""
        self.out, self.monitor, self.steps, self.log = out, monitor, steps, log
        self.resumed = newest_checkpoint(out / "steps")
        done = self.resumed is not None and step_of(self.resumed) >= steps
        self.finished: Path | None = self.resumed if done else None
        """The checkpoint that is to be saved; None: the weights in memory."""
        self.last: Path | None = None
        """The newest whole checkpoint after training."""

    def keep(self) -> None:
        """Settle what is saved. Raises TrainingError for an outage, and for a stop before there was a
        checkpoint."""
        monitor, self.last = self.monitor, newest_checkpoint(self.out / "steps")
        if monitor.outage is not None:
            step = step_of(self.last) if self.last else 0
            raise TrainingError(
                f"Training stopped: {monitor.outage}",
                f"Mend that and run the same command: it goes on from step {step}.",
            )
        if monitor.stopped is None:
            return
        if self.last is None:
            raise TrainingError(
                f"Training stopped: {monitor.stopped}.", "There is no checkpoint yet that could be kept."
            )
        self.finished = self.last
        self.log(f"keeping step {step_of(self.last)}, the last good checkpoint")

    def write_result(self) -> None:
        """Keep how it ended beside its report."""
        result = json.dumps({"stopped": self.monitor.stopped, "steps": self.steps})
        write_text(self.out / RESULT_FILE, result + "\n", TrainingError, "The training's result")

    def result(self) -> Path:
        """The folder of the finished checkpoint. Raises TrainingError if the training had to stop."""
        return _ended(self.out, self.monitor.stopped, "Training stopped")


def ended(out: Path, log: Log) -> Path:
    """The result of a training that ended before; raises TrainingError again if it had to stop."""
    result = read_json(out / RESULT_FILE, TrainingError, "Result")
    final = _ended(out, result.get("stopped") if isinstance(result, dict) else None, "This training stopped")
    log("this training is finished")
    return final


def _ended(out: Path, stopped: str | None, what: str) -> Path:
    final = out / "final"
    if stopped:
        raise TrainingError(f"{what}: {stopped}.", f"The last good checkpoint is in {str(final)!r}.")
    return final

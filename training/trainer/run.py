"""The sequence that fine-tuning and reinforcement learning share, and its dry run.

A training claims its folder, returns at once if it is finished, and releases the folder if it fails before
its first checkpoint. It is resumed only if its description is the same. The user can end it early.

A dry run makes a few timed steps on weights that are then discarded, in a temporary folder. A command asks
for it around the call that trains (`dry_runs`), so that everything before the first step is exactly what a
training does: the same checks of rows, models and judges, and the same first check on held-out rows.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, cast

from ...backend.core.errors import TrainingError, boundary
from ...backend.core.prompts.trained_with import TrainedWith
from .ending import Ending, in_use
from .model_loading import silence_libraries
from .progress import clock, planned
from .resume import check_run, claim_run, given_back_on_failure, newest_checkpoint

STEPS = 3
"""Timed steps, rounded up to whole rollouts."""
GB = 1e9


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
    from .callbacks import TimedSteps

    count = min(prepared.steps, math.ceil(STEPS / whole) * whole)
    timer = TimedSteps(count, prepared.check)
    prepared.trainer.add_callback(timer)
    prepared.trainer.train()
    lines = time_lines(timer.seconds, timer.check_seconds, prepared, whole)
    if found := peak_memory(prepared.trainer):
        lines.append(f"peak memory until then: {found}")
    modules = prepared.trainer.model.modules()
    if changed := [one.in_features * one.out_features for one in modules if hasattr(one, "lora_A")]:
        # Libraries, and the largest changed matrix in several copies, most of them in float32.
        lines.append(f"estimated memory of train merge: {0.9 + 22 * max(changed) / GB:.1f} GB of RAM")
    return lines


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


Log = Callable[[str], None]
AGAIN = "Remove the cause and run the same command: it resumes from the newest whole checkpoint."


class TrainingRun(ABC):
    """One training of the agent in `checkpoint` into the folder `out`."""

    checkpoint: Path
    out: Path
    settings: Any
    log: Log

    @property
    def final(self) -> Path:
        """Folder of the finished checkpoint."""
        return self.out / "final"

    @property
    def devices(self) -> int:
        """Number of processes that train together."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def whole(self) -> int:
        """Number of optimizer steps that belong together: checkpoints are multiples of it."""
        return 1

    @cached_property
    def ending(self) -> Ending:
        """Request of the user to end this training early."""
        return Ending(self.out, self.devices, self.whole)

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return the model, data and settings of this training, as JSON; a resumed one must have the same."""

    @abstractmethod
    def prepared(self) -> Prepared:
        """Check the rows, and return the training ready to begin, for a dry run."""

    @abstractmethod
    def run(self) -> Path:
        """Train to the end and save; returns the folder of the finished checkpoint."""

    def train_from(self, trainer: Any, checkpoint: Path | None, record: TrainedWith) -> None:
        """Train from a checkpoint, or from the start; every checkpoint contains the record.

        Raises:
            TrainingError: A step or a checkpoint failed, such as one for which the disk is too small.
        """
        from .callbacks import RecordInCheckpoints

        trainer.add_callback(RecordInCheckpoints(record))
        stopped = boundary(TrainingError, f"The training in {str(self.out)!r} stopped", AGAIN)
        with stopped:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)

    def finished(self) -> Path:
        """Return the result of a training that an earlier call finished."""
        self.log("this training is finished")
        return self.final

    def carry_out(self) -> Path:
        """Train, resume, or return the result of an earlier call. In a dry run, only check and estimate.

        Raises:
            TrainingError: `out` contains another training, or this one had to stop.
            SettingsError: A row cannot be used.
        """
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        if planned.get():
            return self._dry_run()
        asked, saved = self.ending.asked, newest_checkpoint(self.out / "steps") is not None
        claim_run(self.out, self.description(), only_saved=asked and saved)
        if self.final.is_dir():
            return self.finished()
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(self.out / "tensorboard")
        with in_use(self.out), given_back_on_failure(self.out), silence_libraries():
            if asked and not saved:
                self.ending.withdraw()
            return self.run()

    def _dry_run(self) -> Path:
        """Check everything, time a few steps in a temporary folder, and log the estimates."""
        check_run(self.out, self.description())
        if self.final.is_dir():
            return self.finished()
        silent = self.settings.model_copy(update={"tensorboard": False, "report_to": None})
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, silence_libraries():
            run: TrainingRun = replace(cast(Any, self), out=Path(scratch) / "dry-run", settings=silent)
            with boundary(TrainingError, "The timed steps failed", "Change the settings, and try again."):
                lines = timed(run.prepared(), self.whole)
        for line in (*lines, "dry run: nothing was written, and the weights of these steps are discarded"):
            self.log(line)
        return self.final

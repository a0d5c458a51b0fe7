"""The sequence that fine-tuning and reinforcement learning share.

A training claims its folder, returns at once if it is finished, and releases the folder if it fails before
its first checkpoint. It is resumed only if its description is the same. The user can end it early.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ...backend.errors import TrainingError, boundary
from ...backend.prompts.trained_with import TrainedWith
from .model_loading import silence_libraries
from .resume import check_run, claim_run, given_back_on_failure, newest_checkpoint
from .steps.dry_run import Memory, Prepared, planned, timed
from .steps.ending import Ending, in_use
from .steps.interrupt import two_interrupts

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
        with stopped, two_interrupts(self.ending.ask, self.log):
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
        memory = planned.get()
        if memory is not None:
            return self._dry_run(memory)
        asked, saved = self.ending.asked, newest_checkpoint(self.out / "steps") is not None
        claim_run(self.out, self.description(), only_saved=asked and saved)
        if self.final.is_dir():
            return self.finished()
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(self.out / "tensorboard")
        with in_use(self.out), given_back_on_failure(self.out), silence_libraries():
            if asked and not saved:
                self.ending.withdraw()
            return self.run()

    def _dry_run(self, memory: Memory) -> Path:
        """Check everything, time a few steps in a temporary folder, and log the estimates."""
        check_run(self.out, self.description())
        if self.final.is_dir():
            return self.finished()
        for line in memory(self.checkpoint, self.settings, self.devices):
            self.log(line)
        silent = self.settings.model_copy(update={"tensorboard": False, "report_to": None})
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, silence_libraries():
            run: TrainingRun = replace(cast(Any, self), out=Path(scratch) / "dry-run", settings=silent)
            with boundary(TrainingError, "The timed steps failed", "Change the settings, and try again."):
                lines = timed(run.prepared(), self.whole)
        for line in (*lines, "dry run: nothing was written, and the weights of these steps are discarded"):
            self.log(line)
        return self.final

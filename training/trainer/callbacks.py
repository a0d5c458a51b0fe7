"""Trainer callbacks: progress line, records in checkpoints, early end, dry run.

They run between steps and never inside one. This module needs transformers, so only training code imports it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ...backend.core.prompts.trained_with import TrainedWith
from .ending import Ending
from .progress import LineParts, Pace, line, number

Log = Callable[[str], None]
LAST_ENTRIES = 32
"""Number of log entries used to estimate the remaining time; steps of one rollout differ in duration."""


class Progress(TrainerCallback):
    """Logs a line of progress for every log entry.

    `images` is the mean number of images per step (SFT), or None to read the number of generated images
    from the log (GRPO). The first of each `whole` steps contains the work for all of them (a rollout), so the
    time left counts them as one.
    """

    def __init__(self, log: Log, parts: LineParts, images: float | None = None, whole: int = 1) -> None:
        self.log = log
        self.parts = parts
        self.images = images
        self.whole = whole
        self._at: tuple[float, int, float | None] | None = None
        self._marks: deque[tuple[float, int]] = deque(maxlen=LAST_ENTRIES)

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Start measuring the time."""
        # A resumed training does not log the tokens of its earlier steps before the first log entry.
        self._at = (time.monotonic(), state.global_step, None if state.global_step else 0.0)
        self._marks.append(self._at[:2])

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any
    ) -> None:
        """Log a line of progress if the entry has any of the shown parts."""
        shown = logs is not None and any(key in logs for _, key, _ in self.parts) and "train_loss" not in logs
        if not state.is_world_process_zero or logs is None or not shown or self._at is None:
            return
        then, step, tokens = self._at
        now, seen = time.monotonic(), number(logs, "num_tokens") or 0.0
        self._at = (now, state.global_step, seen)
        seconds = max(1e-6, now - then)
        steps = max(1, state.global_step - step)
        rates = {"tokens": (seen - tokens) / seconds} if tokens is not None and seen > tokens else {}
        drawn = number(logs, "redraw/drawn") if self.images is None else self.images * steps
        if drawn:
            rates["images"] = drawn / seconds
        paid = math.ceil(state.global_step / self.whole) * self.whole
        self._marks.append((now, paid))
        begun, first = self._marks[0]
        left = (now - begun) / max(1, paid - first) * max(0, state.max_steps - paid)
        pace = Pace(state.global_step, state.max_steps, seconds / steps, left)
        self.log(line(logs, self.parts, pace, rates))


class RecordInCheckpoints(TrainerCallback):
    """Saves prompt set and agent card in every checkpoint, so that it opens as an agent wherever it is."""

    def __init__(self, record: TrainedWith) -> None:
        self.record = record

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Save the record in the checkpoint that was just written."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():
            self.record.save(folder)


class EndEarly(TrainerCallback):
    """Ends the training after a step if the user requested it, with a checkpoint and its held-out loss."""

    def __init__(self, ending: Ending, log: Log) -> None:
        self.ending = ending
        self.log = log

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        """Request the end if it is due."""
        if self.ending.due(state.global_step):
            self.log(f"ending after step {state.global_step} at the user's request")
            control.should_evaluate = args.eval_strategy != "no"
            control.should_save = control.should_training_stop = True
        return control


class TimedSteps(TrainerCallback):
    """Times one check and some steps, then stops the training; add it last, so that nothing is saved.

    Attributes:
        seconds: Seconds of each step.
        check_seconds: Seconds of the check.
    """

    def __init__(self, count: int, check: Callable[[], object] | None) -> None:
        self.count = count
        self.check = check
        self.seconds: list[float] = []
        self.check_seconds = 0.0
        self._begun = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Run the check."""
        if self.check is not None:
            begun = time.monotonic()
            self.check()
            self.check_seconds = time.monotonic() - begun

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Start the clock."""
        self._begun = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        """Stop the clock, and the training after the last timed step."""
        self.seconds.append(time.monotonic() - self._begun)
        control.should_save = control.should_evaluate = False
        control.should_training_stop = len(self.seconds) >= self.count
        return control

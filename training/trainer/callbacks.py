"""What looks on while a trainer runs: the live line, and the guards of reinforcement learning.

Decisions. Guards act between steps and never inside one: they measure, say, and ask the trainer to stop; what
is kept then is the last checkpoint whose check was good. Checks fall on the steps at which checkpoints are
saved, so that every checkpoint has one. This module needs transformers and is imported by what trains alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from .report.progress_line import LineParts, Pace, line, number
from .step_clock import StepClock

Log = Callable[[str], None]
LAST_ENTRIES = 32
"""Log entries over which the time left is reckoned: steps of one rollout take very different times."""


class Progress(TrainerCallback):
    """Prints a line for every log entry. `images` is how many images a step takes on average (SFT), None to
    read it from the log (GRPO: drawn)."""

    def __init__(self, log: Log, parts: LineParts, images: float | None = None) -> None:
        self.log = log
        self.parts = parts
        self.images = images
        self._at: tuple[float, int, float | None] | None = None
        self._marks: deque[tuple[float, int]] = deque(maxlen=LAST_ENTRIES)

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        # A training that goes on counts its tokens from where it was, which is not logged before the first
        # entry.
        self._at = (time.monotonic(), state.global_step, None if state.global_step else 0.0)
        self._marks.append(self._at[:2])

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any
    ) -> None:
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
        self._marks.append((now, state.global_step))
        begun, first = self._marks[0]
        left = (now - begun) / max(1, state.global_step - first) * (state.max_steps - state.global_step)
        pace = Pace(state.global_step, state.max_steps, seconds / steps, left)
        self.log(line(logs, self.parts, pace, rates))


class Stopwatch(TrainerCallback):
    """Tells a clock when steps begin and end; to be added before what checks between steps."""

    def __init__(self, clock: StepClock) -> None:
        self.clock = clock

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.clock.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.clock.end()

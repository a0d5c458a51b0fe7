"""Progress of a training: a line per log entry with metrics, rates and time left.

The lines are computed from the trainer's own log entries by pure functions, so that console and TensorBoard
show the same numbers.

`planned` tells rows and trainings that they are part of a dry run (run.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

planned: ContextVar[bool] = ContextVar("planned", default=False)
"""Whether trainings in this context are dry runs."""


@contextmanager
def dry_runs() -> Iterator[None]:
    """Make every training in the block a dry run."""
    token = planned.set(True)
    try:
        yield
    finally:
        planned.reset(token)


LineParts = Sequence[tuple[str, str, int]]
"""Name, key in the log entry and digits (negative: scientific notation) of each part of a line."""

SFT_PARTS: LineParts = (
    ("loss", "loss", 4),
    ("token accuracy", "mean_token_accuracy", 3),
    ("rate", "learning_rate", -2),
)
GRPO_PARTS: LineParts = (
    ("reward", "reward/overall", 3),
    ("format", "reward/format", 2),
    ("accuracy", "reward/accuracy", 2),
    ("semantic", "reward/semantic", 3),
    ("quality", "reward/quality", 3),
    ("spread", "reward/spread", 3),
    ("dead", "reward/dead", 2),
    ("accepted", "verdict/true", 2),
    ("tokens", "completions/mean_length", 0),
    ("truncated", "completions/clipped_ratio", 2),
    ("cached", "redraw/served", 2),
    ("failed", "redraw/failed", 2),
)
PLANNER_GRPO_PARTS: LineParts = (
    ("reward", "reward/overall", 3),
    ("format", "reward/format", 2),
    ("match", "reward/match", 3),
    ("consistency", "reward/consistency", 2),
    ("length", "reward/length", 2),
    ("exact", "plan/exact", 2),
    ("spread", "reward/spread", 3),
    ("dead", "reward/dead", 2),
    ("copied", "plan/copied", 2),
    ("tokens", "completions/mean_length", 0),
    ("truncated", "completions/clipped_ratio", 2),
    ("failed", "plan/failed", 2),
)


def number(logs: Mapping[str, Any], key: str) -> float | None:
    """Return a finite number of a log entry, or None if it is missing or not finite."""
    value = logs.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


class Pace(NamedTuple):
    """Progress of a training: current step, total steps, seconds per step, seconds left."""

    step: int
    steps: int
    seconds_a_step: float
    left: float


def line(logs: Mapping[str, Any], parts: LineParts, pace: Pace, rates: Mapping[str, float]) -> str:
    """Return one progress line; `rates` are per second, by name."""
    said = []
    for name, key, digits in parts:
        value = number(logs, key)
        if value is not None:
            said.append(f"{name} {value:.{digits}f}" if digits >= 0 else f"{name} {value:.{-digits}e}")
    fast = [f"{rate:.0f} {name}/s" if rate >= 10 else f"{rate:.2g} {name}/s" for name, rate in rates.items()]
    fast += [f"{pace.seconds_a_step:.2f} s/step", f"{clock(pace.left)} left"]
    return f"step {pace.step}/{pace.steps} | {' '.join(said)} | {', '.join(fast)}"


def clock(seconds: float) -> str:
    """Return a duration as 1:02:03 (hours, minutes, seconds) or 2:03."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


class TimeLeft:
    """Logs the progress of slow work with its remaining time, at most one line every `every` seconds.

    Args:
        what: The work, at the beginning of each line.
        log: Receives the lines.
        every: Seconds between lines. Work that is done earlier logs none.
        now: Clock in seconds.
    """

    def __init__(
        self,
        what: str,
        log: Callable[[str], None],
        every: float = 15.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._log, self._every, self._now = what, log, every, now
        self._begun = self._shown = now()

    def __call__(self, done: int, total: int) -> None:
        """State that `done` of `total` parts are finished. 0 restarts the clock, as after loading a model."""
        now = self._now()
        if done == 0:
            self._begun = self._shown = now
        if not 0 < done < total or now - self._shown < self._every:
            return
        self._shown = now
        left = (now - self._begun) / done * (total - done)
        self._log(f"{self._what}: {done} of {total}, {clock(left)} left")

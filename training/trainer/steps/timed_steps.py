"""Trainer callback of a dry run. This module needs transformers, so only training code imports it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback


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

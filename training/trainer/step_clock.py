"""Measures the parts of a GRPO step: generating answers, rewards, update.

Only existing events are timed (a step begins, the reward is called and returns, the step ends), so the
measurement needs no internals of the trainer and costs nothing. It is logged with every step. Generating and
scoring images overlap, so their own seconds (`BatchCounts`) may add up to more than the wall-clock time of
the reward.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class StepClock:
    """Wall-clock seconds of the last step.

    The keys are `seconds/rollout` and `seconds/reward` (in steps with a rollout), `seconds/update` and
    `seconds/step`. Checks and checkpoints happen between steps and are not included.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun: float | None = None
        self._reward: tuple[float, float] | None = None
        self._taken: dict[str, float] = {}

    def begin(self) -> None:
        """Record the beginning of an optimizer step."""
        self._begun, self._reward = self._now(), None

    def rewarded(self, since: float) -> None:
        """Record that the reward returned; `since` is the time (`now`) at which it was called."""
        self._reward = since, self._now()

    def now(self) -> float:
        """Return the clock's time in seconds."""
        return self._now()

    def end(self) -> None:
        """Record the end of the optimizer step."""
        if self._begun is None:
            return
        ended, begun = self._now(), self._begun
        self._taken = {"seconds/step": ended - begun, "seconds/update": ended - begun}
        if self._reward is not None:
            called, returned = self._reward
            self._taken |= {
                "seconds/rollout": called - begun,
                "seconds/reward": returned - called,
                "seconds/update": ended - returned,
            }
        self._begun = None

    def taken(self) -> dict[str, float]:
        """Return the seconds of the last step by part, once; empty until another step has ended."""
        taken, self._taken = self._taken, {}
        return taken

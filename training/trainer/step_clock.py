"""Where the time of a step of reinforcement goes: answers written, rewards, update. Three marks a step,
nothing traced.

Decision: the marks are the ones that are there anyway (a step begins, the reward is called and returns, the
step ends), so that the split needs nothing of the trainer's inside and costs nothing; it is logged with every
step. Drawing and scoring overlap, so their own seconds (`BatchCounts`) may add up to more than the reward's,
which is wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class StepClock:
    """Seconds of the step that ended last: `seconds/rollout`, `seconds/reward` (steps with a rollout),
    `seconds/update`, `seconds/step`. Checks and checkpoints lie between steps and are not in it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun: float | None = None
        self._reward: tuple[float, float] | None = None
        self._taken: dict[str, float] = {}

    def begin(self) -> None:
        """An optimiser step begins."""
        self._begun, self._reward = self._now(), None

    def rewarded(self, since: float) -> None:
        """The reward returns, having been called at `since` (`now`)."""
        self._reward = since, self._now()

    def now(self) -> float:
        """The clock's time in seconds."""
        return self._now()

    def end(self) -> None:
        """The optimiser step has ended."""
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
        """The seconds of the last step by part, once; empty until another one has ended."""
        taken, self._taken = self._taken, {}
        return taken

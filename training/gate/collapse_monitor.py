"""Stops a GRPO training if the agent collapses, a judge is unavailable or weights are wrong.

The monitor checks held-out answers in addition to the reward, since the usual failure is a reward that rises
while held-out answers get worse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from transformers import TrainerCallback

from ...backend.core.errors import TrainingError
from ..reward.rollout_reward import RolloutReward
from ..trainer.callbacks import Log
from ..trainer.ending import Ending
from ..trainer.progress import number
from .held_out import CheckLog, HeldOutCheck

REFERENCE_KL = 1e-3


STALE = 0.1
"""Mean difference of log-probabilities between the sampling model (vLLM) and the trained one that indicates
outdated weights in vLLM.

A healthy run has 0.015 and one with outdated weights 0.2 (as reported for trl before version 1.10).
"""


class Limits(NamedTuple):
    """Limits of a training.

    Attributes:
        every: Optimizer steps between checks.
        floor: Value below which the training stops.
    """

    every: int
    floor: float


class CollapseMonitor(TrainerCallback):
    """Checks the agent on held-out rows at every checkpoint, and stops the training if necessary."""

    def __init__(
        self,
        check: Callable[[], HeldOutCheck],
        checks: CheckLog[Any],
        limits: Limits,
        reward: RolloutReward[Any, Any],
        log: Log,
        ending: Ending | None = None,
    ) -> None:
        """Monitor a training.

        Args:
            check: Runs a check.
            checks: Log of the checks.
            limits: When it checks, and when it stops.
            reward: Source of problems between the checks.
            log: Called with every line of progress.
            ending: Request of the user to end the training, on which all ranks agree, as on problems. A rank
                that stopped alone would leave the others waiting for it.
        """
        self.check = check
        self.checks = checks
        self.every, self.floor = limits
        self.reward = reward
        self.log = log
        self.ending = ending
        self.stopped: str | None = None
        self.outage: str | None = None
        self._warned = False
        self._first = -1
        self._measured: dict[str, float] = {}

    def taken(self) -> dict[str, float]:
        """Return the measures of the check after the last step, once, for the log entry of that step."""
        taken, self._measured = self._measured, {}
        return taken

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Check the starting model.

        Raises:
            TrainingError: It is below the floor before any step.
        """
        self._first = state.global_step
        self.checks.forget_after(state.global_step)
        stored = self.checks.at(state.global_step)
        if stored is not None and state.global_step:
            return
        # The check of a start that was refused is already stored; refuse it again.
        fall = stored.low(self.floor, stored) if stored is not None else self._checked(state.global_step)
        if fall:
            raise TrainingError(
                f"The agent is below the floor before any step: {fall}.",
                "Train it with SFT first, or lower collapse_threshold.",
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        """Stop the training for a problem, or for a failed check if a check is due."""
        ends = self.ending is not None and self.ending.due(state.global_step)
        is_last = ends or state.global_step >= state.max_steps
        problem = self.reward.problem(at_end=is_last)
        if self.ending is not None:
            problem = self.ending.agree(problem)
        if problem is not None:
            self.outage = problem
            return self._stop(control, problem)
        warning = self.reward.warning
        if warning is not None and not self._warned:
            self.log(f"WARNING: {warning}.")
        self._warned = warning is not None
        if state.global_step % self.every and not is_last:
            return control
        fall = self._checked(state.global_step)
        found = self.checks.at(state.global_step)
        self._measured = {} if found is None else found.measures()
        if fall:
            self.stopped = fall
            return self._stop(control, fall)
        if ends:
            self.log(f"ending after step {state.global_step} at the user's request")
            control.should_save = control.should_training_stop = True
        return control

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any
    ) -> None:
        """Warn of outdated weights in vLLM, and compare the model with its reference at the first step.

        Raises:
            TrainingError: The model differs from its reference before it has learned anything.
        """
        apart = number(logs or {}, "sampling/sampling_logp_difference/mean")
        if apart is not None and apart > STALE:
            self.log(
                f"WARNING: the log-probabilities of vLLM's answers differ by {apart:.2f} from those of the "
                "trained model. vLLM may be using outdated weights; the answers are then of little use for "
                "training. Restart the training if this persists."
            )
        kl = number(logs or {}, "kl")
        if kl is not None and state.global_step == 1 and self._first == 0 and kl > REFERENCE_KL:
            raise TrainingError(
                f"At the first step the KL between model and reference model is {kl:.3g} instead of 0.",
                "The checkpoint's folder now contains other weights; use a folder that does not change.",
            )

    def _checked(self, step: int) -> str | None:
        """Check, store and log the result; return the reason to stop if a measure is below the floor."""
        check = self.check()
        self.checks.add(step, check)
        self.log(f"step {step} held out: {check}")
        return check.low(self.floor, next(iter(self.checks.all.values())))

    def _stop(self, control: Any, reason: str) -> Any:
        self.log(f"STOPPING: {reason}.")
        control.should_save = False
        control.should_training_stop = True
        return control

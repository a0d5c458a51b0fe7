"""What stops a reinforcement learning that must not go on: an agent that collapsed, a judge that is out,
weights that went stale.

Decision: the held-out check stands beside the reward, since a reward that rises while held-out answers get
worse is the usual failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from transformers import TrainerCallback

from ...backend.errors import TrainingError
from ..trainer.callbacks import Log
from ..trainer.report.progress_line import number
from .held_out import CheckLog, HeldOutCheck

REFERENCE_KL = 1e-3


STALE = 0.1
"""Mean difference of log-probabilities between who writes the answers (vLLM) and who learns from them, past
which the writer has other weights: 0.015 in a healthy run and 0.2 with stale weights (as reported for trl
before 1.10)."""


class Paced(Protocol):
    """Settings of a training that is checked: every `save_steps` steps, down to `collapse_threshold`."""

    @property
    def save_steps(self) -> int: ...

    @property
    def collapse_threshold(self) -> float: ...


class Watched(Protocol):
    """What is learned from: why training cannot go on for now, why it cannot be finished at its last step,
    and what a person should know; else None."""

    @property
    def problem(self) -> str | None: ...

    @property
    def problem_at_end(self) -> str | None: ...

    @property
    def warning(self) -> str | None: ...


class CollapseMonitor(TrainerCallback):
    """Checks the agent on held-out rows at every checkpoint and asks for a stop when it must not go on."""

    def __init__(
        self,
        check: Callable[[], HeldOutCheck],
        checks: CheckLog[Any],
        settings: Paced,
        reward: Watched,
        log: Log,
        agree: Callable[[str | None], str | None] = lambda problem: problem,
    ) -> None:
        """`agree` gives every rank the first problem that any of them has: a rank that stops alone leaves the
        others waiting for it."""
        self.check = check
        self.checks = checks
        self.every = settings.save_steps
        self.floor = settings.collapse_threshold
        self.reward = reward
        self.log = log
        self.agree = agree
        self.stopped: str | None = None
        self.outage: str | None = None
        self._warned = False
        self._first = -1
        self._measured: dict[str, float] = {}

    def taken(self) -> dict[str, float]:
        """What the check after the last step found, once, for the log entry of that step."""
        taken, self._measured = self._measured, {}
        return taken

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self._first = state.global_step
        self.checks.forget_after(state.global_step)
        stored = self.checks.at(state.global_step)
        if stored is not None and state.global_step:
            return
        # A start that was refused is refused again, whose check lies there already.
        fall = stored.low(self.floor, stored) if stored is not None else self._checked(state.global_step)
        if fall:
            raise TrainingError(
                f"The agent is below the floor before any step: {fall}.",
                "Train it further by SFT first, or lower --collapse-threshold.",
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        is_last = state.global_step >= state.max_steps
        problem = self.agree(self.reward.problem_at_end if is_last else self.reward.problem)
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
        return control

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any
    ) -> None:
        apart = number(logs or {}, "sampling/sampling_logp_difference/mean")
        if apart is not None and apart > STALE:
            self.log(
                f"WARNING: vLLM's answers are {apart:.2f} away in log-probability from the model that "
                "learns from them: "
                "it may be writing with old weights, and what is learned so is worth little."
            )
        kl = number(logs or {}, "kl")
        if kl is not None and state.global_step == 1 and self._first == 0 and kl > REFERENCE_KL:
            raise TrainingError(
                f"At the first step the model is {kl:.3g} away from its reference, which should be itself.",
                (
                    "The folder the model was loaded from holds other weights now; give one that does not "
                    "change."
                ),
            )

    def _checked(self, step: int) -> str | None:
        """Check, store and log the result; the reason to stop if a share is below the floor."""
        check = self.check()
        self.checks.add(step, check)
        self.log(f"step {step} held out: {check}")
        return check.low(self.floor, next(iter(self.checks.all.values())))

    def _stop(self, control: Any, reason: str) -> Any:
        self.log(f"STOPPING: {reason}.")
        control.should_save = False
        control.should_training_stop = True
        return control

"""trl's GRPO trainer, its configuration, and the changes that the training of agents needs.

The whole configuration is built in one function that can be tested without a GPU. `RewardTrainer` overrides
two methods that are meant to be overridden, `log` and `compute_loss`, and internal ones of trl, such as
`_tokenize_prompts`, without which requests with and without images cannot be mixed in a batch. trl counts
answers that were left out of their group: they have no advantage, but a KL term, and their tokens are in the
divisor of the loss. They are therefore masked, and the divisors are counted again, over all ranks. The loss
is then that of a rollout without them, however it is divided into micro-batches (but for `bnpo`).

`CollapseMonitor` stops a training if the agent collapses, a judge is unavailable or weights are wrong. It
checks held-out answers in addition to the reward, since the usual failure is a reward that rises while
held-out answers get worse.

This module needs trl, so only training code imports it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from torch.utils.data import Sampler
from transformers import TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from ...backend.core.errors import SettingsError, TrainingError
from ...backend.core.machine.libraries import installed, release
from ...backend.models.checkpoints.checkpoint import read_json
from ..gate.held_out import CheckLog, HeldOutCheck
from ..reward.rollout_reward import RolloutReward
from ..trainer.callbacks import Log
from ..trainer.ending import Ending, patience
from ..trainer.model_loading import on_cpu, trackers_of, trainer_arguments
from ..trainer.progress import number
from .grpo_settings import GrpoTraining, batches, vllm_arguments

Measured = Callable[[], dict[str, float]]


def config_of(
    settings: GrpoTraining,
    steps: Path,
    steps_in_all: int,
    devices: int,
    longest: float = 0.0,
) -> GRPOConfig:
    """Return the configuration of trl's trainer. Call it before the model is loaded (see `load_policy`).

    Args:
        settings: Settings of the training.
        steps: Folder of the checkpoints.
        steps_in_all: Total number of optimizer steps.
        devices: Number of training processes, one per device.
        longest: Seconds for which one rank may compute rewards or a check while the others wait.

    Raises:
        SettingsError: The settings contradict each other.
    """
    a_step, a_rollout = batches(settings, devices)
    own: dict[str, Any] = {
        **vllm_arguments(settings),
        "max_steps": steps_in_all,
        "gradient_accumulation_steps": a_step,
        "steps_per_generation": a_rollout,
        # A growing cache is copied as a whole at every token, which is slow on a CPU in a rollout of a
        # hundred answers (`answer_cache` of 0.3.0). On a GPU a static cache would make transformers
        # compile the model.
        "cache_implementation": "static" if on_cpu(settings) else None,
        "use_bias_correction_kl": False,
        "remove_unused_columns": False,
        "logging_steps": 1,
        "save_steps": settings.save_steps,
        "report_to": trackers_of(settings),
        "ddp_timeout": patience(longest),
    }
    return GRPOConfig(**trainer_arguments(settings, GRPOConfig, steps, steps_in_all) | own)


ALL_ENDS = (1, 15)
"""First release of trl that knows all end tokens of a model; Python 3.10 has only older ones."""


def check_ends(checkpoint: Path, end: int) -> None:
    """Check that trl knows the end tokens of a checkpoint, whose tokenizer has the token `end`.

    Raises:
        SettingsError: It would also learn from what follows another end token.
    """
    path, trl = checkpoint / "generation_config.json", installed("trl")
    ends = read_json(path).get("eos_token_id") if path.is_file() else end
    if ends not in (None, end, [end]) and release(trl) < ALL_ENDS:
        raise SettingsError(
            f"The model ends answers with one of the tokens {ends}, but trl {trl} knows only {end}, and "
            "would learn from what follows the others.",
            "Use Python 3.11 or newer with trl 1.16 or newer.",
        )


class RewardTrainer(GRPOTrainer):
    """GRPO trainer with one reward; the functions in `measured` add entries to every log entry."""

    def __init__(self, reward: RolloutReward[Any, Any], **options: Any) -> None:
        self.reward = reward
        self.measured: list[Measured] = []
        self.kept = 1.0
        """Share of the answers of a rollout that were not left out."""
        super().__init__(reward_funcs=[reward], **options)  # pyright: ignore[reportArgumentType] - asynchronous, which is taken though not typed
        # If all weights are trained with a KL term, trl loads the starting model as a second model.
        models: list[Any] = [options["model"], self.ref_model]
        for read in models:
            if read is not None:
                plain = read.get_base_model() if hasattr(read, "get_base_model") else read
                plain.register_forward_pre_hook(_without_no_images, with_kwargs=True)

    def _tokenize_prompts(self, prompts: list) -> Any:
        """Tokenize prompts as trl does, but allow prompts with and without images in one batch.

        trl 1.16 passes None for a prompt without images, which the processor rejects; it gets an empty list
        instead.
        """
        ids, images, fields = super()._tokenize_prompts(prompts)
        return ids, None if images is None else [some or [] for some in images], fields

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        """Return trl's sampler, with an order of the rows that depends on seed and epoch alone."""
        return _EpochOrder(super()._get_train_sampler(dataset), lambda: int(self.state.epoch or 0))

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save without the copy of a continued adapter that is the reference, and that every start makes."""
        super()._save(output_dir, state_dict)
        shutil.rmtree(Path(output_dir or str(self.args.output_dir)) / "ref", ignore_errors=True)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the measured values to the log entry and log it."""
        for measured in self.measured:
            logs = {**logs, **measured()}
        super().log(logs, start_time)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        """Generate and score answers as trl does, and mask those that were left out of their group."""
        made: Any = super()._generate_and_score_completions(inputs)
        mask = made["completion_mask"]
        kept = mask.new_tensor([not out for out in self.reward.left_out]).unsqueeze(1)
        made["completion_mask"] = mask * kept
        counts = kept.new_tensor([[made["completion_mask"].sum(), kept.sum(), len(kept)]])
        gathered: Any = self.accelerator.gather(counts)
        tokens, answers, whole = gathered.sum(0)
        made["num_items_in_batch"], self.kept = tokens, max(1, int(answers)) / int(whole)
        return made

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return trl's loss, averaged over only those answers that were not left out.

        Args:
            model: The policy.
            inputs: A micro-batch of trl; its token tensors have the shape `(answers, tokens)`.
            return_outputs: As in transformers' Trainer.
            num_items_in_batch: As in transformers' Trainer.

        Returns:
            A scalar tensor.
        """
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        return loss / self.kept if self.loss_type in ("grpo", "dr_grpo") else loss


class _EpochOrder(Sampler[int]):
    """Order of trl's sampler. After a resume that would continue with the order of the first epoch."""

    def __init__(self, sampler: Any, epoch: Callable[[], int]) -> None:
        self.sampler, self.epoch = sampler, epoch

    def __iter__(self) -> Iterator[int]:
        self.sampler.generator.manual_seed(self.sampler.seed + self.epoch())
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


def _without_no_images(model: Any, arguments: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Remove empty image inputs from the arguments of a forward pass.

    A micro-batch of a mixed batch may contain no images, and the vision tower rejects `pixel_values` of the
    shape `(0, features)`.
    """
    pixels = named.get("pixel_values")
    if pixels is not None and not pixels.shape[0]:
        named = {**named, "pixel_values": None, "image_grid_thw": None}
    return arguments, named


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
        keep_best: Whether the checkpoint with the best check is kept when older ones are deleted.
    """

    every: int
    floor: float
    keep_best: bool = False


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
        self.every, self.floor, self.keep_best = limits
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
        if self.keep_best:
            # The trainer does not delete the checkpoint of this step.
            state.best_global_step = self.checks.best(step for step in self.checks.all if step)
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

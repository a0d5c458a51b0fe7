"""trl's GRPO trainer, its configuration, and the changes that the training of agents needs.

The whole configuration is built in one function that can be tested without a GPU. `RewardTrainer` overrides
two methods that are meant to be overridden, `log` and `compute_loss`, and one internal method of trl,
`_tokenize_prompts`, without which requests with and without images cannot be mixed in a batch. trl divides
the summed loss by the tokens of all answers of a rollout, including those of answers that were left out of
their group. If these have the share m of the tokens, every gradient is 1 - m times what the remaining answers
alone would give; the loss is therefore multiplied by 1 / (1 - m), counted over all ranks.

A vLLM that sleeps between rollouts starts without its cache of processed images. Sleep clears the engine's
cache. In versions that do not clear that of the sending process, the next prompt with a known image is sent
without it: vLLM fails (vllm-project/vllm issue 42995, fixed by pull request 43001), or scores are wrong
without a message (Tencent-Hunyuan/UniRL pull request 348). trl 1.16 has no argument for it, so the class that
trl calls is replaced while the trainer is created.

This module needs trl, so only training code imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from ..reward.rollout_reward import RolloutReward
from ..trainer.ending import patience
from ..trainer.model_loading import on_cpu, trainer_arguments
from .grpo_settings import GrpoTraining, batches, vllm_arguments

Measured = Callable[[], dict[str, float]]


def config_of(
    settings: GrpoTraining,
    steps: Path,
    steps_in_all: int,
    devices: int,
    report_to: list[str],
    longest: float = 0.0,
) -> GRPOConfig:
    """Return the configuration of trl's trainer. Call it before the model is loaded (see `load_policy`).

    Args:
        settings: Settings of the training.
        steps: Folder of the checkpoints.
        steps_in_all: Total number of optimizer steps.
        devices: Number of training processes, one per device.
        report_to: Names of the experiment trackers.
        longest: Seconds for which one rank may compute rewards or a check while the others wait.

    Raises:
        SettingsError: The settings contradict each other.
    """
    a_step, a_rollout = batches(settings, devices)
    own: dict[str, Any] = {
        **vllm_arguments(settings, devices),
        "max_steps": steps_in_all,
        "gradient_accumulation_steps": a_step,
        "steps_per_generation": a_rollout,
        # A growing cache is copied as a whole at every token, which is slow on a CPU in a rollout of a
        # hundred answers (`answer_cache` of 0.3.0). On a GPU a static cache would make transformers
        # compile the model.
        "cache_implementation": "static" if on_cpu(settings) else None,
        "loss_type": "dapo",
        "use_bias_correction_kl": False,
        "remove_unused_columns": False,
        "logging_steps": 1,
        "save_steps": settings.save_steps,
        "report_to": report_to,
        "ddp_timeout": patience(longest),
    }
    return GRPOConfig(**trainer_arguments(settings, GRPOConfig, steps, steps_in_all) | own)


class RewardTrainer(GRPOTrainer):
    """GRPO trainer with one reward; the functions in `measured` add entries to every log entry."""

    def __init__(self, reward: RolloutReward[Any, Any], **options: Any) -> None:
        self.reward = reward
        self.measured: list[Measured] = []
        super().__init__(reward_funcs=[reward], **options)  # pyright: ignore[reportArgumentType] - asynchronous, which is taken though not typed
        # If all weights are trained with a KL term, trl loads the starting model as a second model.
        models: list[Any] = [options["model"], self.ref_model]
        for read in models:
            if read is not None:
                read.register_forward_pre_hook(_without_no_images, with_kwargs=True)

    def _tokenize_prompts(self, prompts: list) -> Any:
        """Tokenize prompts as trl does, but allow prompts with and without images in one batch.

        trl 1.16 passes None for a prompt without images, which the processor rejects; it gets an empty list
        instead.
        """
        ids, images, fields = super()._tokenize_prompts(prompts)
        return ids, None if images is None else [some or [] for some in images], fields

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the measured values to the log entry and log it."""
        for measured in self.measured:
            logs = {**logs, **measured()}
        super().log(logs, start_time)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return trl's loss, averaged over the tokens of only those answers that were not left out.

        Args:
            model: The policy.
            inputs: A micro-batch of trl; its token tensors have the shape `(answers, tokens)`.
            return_outputs: As in transformers' Trainer.
            num_items_in_batch: As in transformers' Trainer.

        Returns:
            A scalar tensor.
        """
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        whole, left_out = self._tokens()
        return loss * (whole / (whole - left_out)) if 0 < left_out < whole else loss

    def _tokens(self) -> tuple[int, int]:
        """Return (tokens of the rollout's answers, tokens of left-out answers), summed over all ranks."""
        if self.accelerator.num_processes == 1:
            return self.reward.tokens
        import torch

        here = torch.tensor(self.reward.tokens, dtype=torch.float32)
        summed: Any = self.accelerator.reduce(here.to(self.accelerator.device), "sum")
        whole, left_out = summed.tolist()
        return int(whole), int(left_out)


def _without_no_images(model: Any, arguments: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Remove empty image inputs from the arguments of a forward pass.

    A micro-batch of a mixed batch may contain no images, and the vision tower rejects `pixel_values` of the
    shape `(0, features)`.
    """
    pixels = named.get("pixel_values")
    if pixels is not None and not pixels.shape[0]:
        named = {**named, "pixel_values": None, "image_grid_thw": None}
    return arguments, named


CACHE_GB = 0


@contextmanager
def without_image_cache(settings: GrpoTraining, log: Callable[[str], None]) -> Iterator[None]:
    """Start a colocated vLLM of trl without a cache of processed images, inside the `with` block."""
    if not settings.use_vllm or settings.vllm_mode != "colocate":
        yield
        return
    from trl.generation import vllm_generation as trl_engine

    # Without vLLM, trl's module does not have this name.
    module: Any = trl_engine
    engine = getattr(module, "LLM", None)
    if engine is None:
        log(
            "WARNING: this version of trl starts vLLM in another place, so its cache of processed images "
            "stays enabled. Images may be missing from prompts unless vLLM clears that cache when it sleeps."
        )
        yield
        return
    module.LLM = partial(engine, mm_processor_cache_gb=CACHE_GB)
    try:
        yield
    finally:
        module.LLM = engine

"""trl's GRPO trainer as reinforcement uses it here: its configuration, and what is added to it.

Decisions. trl's whole configuration stands in one place that can be read without a card. Two methods that
trainers are made to have overridden are: `log`, which adds what clock and monitor measured, and
`compute_loss`. One of trl's own is: `_tokenize_prompts`, without which requests with and without an image
cannot be mixed. trl divides the sum over tokens by the number of all tokens of a rollout, also those of
answers that were left out of their group: with a share m of them every gradient would be 1 - m of what the
remaining answers alone give. The loss is multiplied by 1 / (1 - m), counted over all ranks. This module needs
trl and is imported by what trains alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from ..reward.rollout_reward import RolloutReward
from ..trainer.model_loading import on_cpu, trainer_arguments
from ..trainer.ranks import patience
from .settings import GrpoTraining, batches, vllm_arguments

Measured = Callable[[], dict[str, float]]


def config_of(
    settings: GrpoTraining,
    steps: Path,
    steps_in_all: int,
    devices: int,
    report_to: list[str],
    longest: float = 0.0,
) -> GRPOConfig:
    """The configuration of trl's trainer; raises SettingsError for options that do not go together. Made
    before the model is loaded (see policy_model). `longest`: seconds that one rank may be at its rewards or a
    check while the others wait."""
    a_step, a_rollout = batches(settings, devices)
    own: dict[str, Any] = {
        **vllm_arguments(settings, devices),
        "max_steps": steps_in_all,
        "gradient_accumulation_steps": a_step,
        "steps_per_generation": a_rollout,
        # A cache that grows is copied whole at every token, which a processor feels in a rollout of a hundred
        # answers (benchmarks/answer_cache.py). On a GPU one of full length would have the model compiled.
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
    """trl's trainer with one reward; `measured` gives what else belongs into every log entry."""

    def __init__(self, reward: RolloutReward[Any, Any], **options: Any) -> None:
        self.reward = reward
        self.measured: list[Measured] = []
        super().__init__(reward_funcs=[reward], **options)  # pyright: ignore[reportArgumentType] - asynchronous, which is taken though not typed
        # With all weights and a distance to the first model, trl has that model as a second one.
        models: list[Any] = [options["model"], self.ref_model]
        for read in models:
            if read is not None:
                read.register_forward_pre_hook(_without_no_images, with_kwargs=True)

    def _tokenize_prompts(self, prompts: list) -> Any:
        """trl's, where questions with and without images stand in one batch: it says None for no image, which
        the processor refuses (trl 1.16)."""
        ids, images, fields = super()._tokenize_prompts(prompts)
        return ids, None if images is None else [some or [] for some in images], fields

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log with what was measured beside the trainer."""
        for measured in self.measured:
            logs = {**logs, **measured()}
        super().log(logs, start_time)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """trl's loss over the tokens of the answers that count alone."""
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        whole, left_out = self._tokens()
        return loss * (whole / (whole - left_out)) if 0 < left_out < whole else loss

    def _tokens(self) -> tuple[int, int]:
        """(tokens of the rollout's answers, of these in answers that were left out), over all ranks."""
        if self.accelerator.num_processes == 1:
            return self.reward.tokens
        import torch

        here = torch.tensor(self.reward.tokens, dtype=torch.float32)
        summed: Any = self.accelerator.reduce(here.to(self.accelerator.device), "sum")
        whole, left_out = summed.tolist()
        return int(whole), int(left_out)


def _without_no_images(model: Any, arguments: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments of a model's forward pass without images of which there are none: where questions with
    and without images are mixed, a micro-batch may have none, and the vision tower refuses that."""
    pixels = named.get("pixel_values")
    if pixels is not None and not pixels.shape[0]:
        named = {**named, "pixel_values": None, "image_grid_thw": None}
    return arguments, named

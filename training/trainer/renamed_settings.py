"""Old names of settings, and the names of trl, transformers and peft that replace them.

A recipe or option with an old name is refused with an error that gives the new one. The record of a training
that was started under old names is translated, so that it can be resumed.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

RENAMED = {
    "rate": "learning_rate",
    "real_rate": "real_learning_rate",
    "last_rate": "last_learning_rate",
    "schedule": "lr_scheduler_type",
    "warm_up": "warmup_steps",
    "second_moment": "adam_beta2",
    "optimizer": "optim",
    "lora_rank": "lora_r",
    "quantization": "load_in_4bit",
    "precision": "bf16",
    "half": "save_dtype",
    "epochs": "num_train_epochs",
    "batch": "per_device_train_batch_size",
    "micro_batch": "per_device_train_batch_size",
    "accumulation": "gradient_accumulation_steps",
    "cutoff": "max_length",
    "ordered": "train_sampling_strategy",
    "save_every": "save_steps",
    "patience": "early_stopping_patience",
    "workers": "dataloader_num_workers",
    "floor": "collapse_threshold",
    "group": "num_generations",
    "prompt_tokens": "max_prompt_length",
    "answer_tokens": "max_completion_length",
    "kl": "beta",
    "clip_low": "epsilon",
    "clip_high": "epsilon_high",
    "clip_dual": "delta",
    "scale": "scale_rewards",
    "vllm": "use_vllm",
    "vllm_memory": "vllm_gpu_memory_utilization",
    "vllm_length": "vllm_max_model_length",
    "vllm_tensor_parallel": "vllm_tensor_parallel_size",
    "vllm_url": "vllm_server_base_url",
    "keep_words": "keep_labelled",
}
"""New names by old ones. A stage may still use an old name, such as `save_every` of GRPO."""
VALUES: Mapping[str, Mapping[Any, Any]] = {
    "optimizer": {"adamw": "adamw_torch"},
    "quantization": {"none": False, "4bit": True},
    "precision": {"fp32": False, "bf16": True},
    "ordered": {False: "random", True: "sequential"},
    "schedule": {"constant": "constant_with_warmup"},
    "vllm": {"off": False, "colocate": True, "server": True},
}
"""New values by old ones, of settings whose values changed."""


def with_new_names(settings: Mapping[str, Any], today: Collection[str]) -> dict[str, Any]:
    """Return the record of a training with today's names and values.

    Args:
        settings: The record, which an earlier version may have written.
        today: Current setting names of this kind of training. They are never renamed: the ablation still has
            a setting named `kl`.
    """
    old = {name for name in settings if name not in today}
    made = {
        RENAMED.get(name, name) if name in old else name: (
            VALUES[name].get(value, value)
            if name in old and name in VALUES and isinstance(value, Hashable)
            else value
        )
        for name, value in settings.items()
    }
    if "vllm" in old:
        made["vllm_mode"] = "server" if settings["vllm"] == "server" else "colocate"
    return made

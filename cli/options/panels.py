"""Panels of `--help`: which options come first without a panel, and the titles of the others.

The settings models are defined all over the package and know nothing about the command line, so their groups
are listed here. A field that is not listed is in the panel of its model.
"""

from __future__ import annotations

from typing import Any

FIRST = (
    "out",
    "image",
    "planner",
    "critic",
    "generator",
    "style",
    "max_attempts",
    "accept_at",
    "size",
    "seed",
)
"""Options that people use first, in this order; only commands that open a planner or a critic are sorted."""

PLANNER, CRITIC, GENERATOR, SAMPLING = "Planner", "Critic", "Generator", "Sampling"
LIMITS, LOADING, SERVICES = "Resume and limits", "Loading models", "Image services"
GGUF, AUTOMATION, COST = "GGUF agents (llama.cpp)", "Automation", "Cost"
DATA, PARALLEL = "Data selection", "Parallel work"
ORDER = (PLANNER, CRITIC, GENERATOR, SAMPLING, LIMITS, COST, PARALLEL, LOADING, GGUF, SERVICES, AUTOMATION)
"""Panels of commands that run a story, in the order of `--help`."""

Fields = dict[str, tuple[str, ...]]


def _sampling(role: str) -> tuple[str, ...]:
    return tuple(f"{role}_{name}" for name in ("max_tokens", "temperature", "top_p", "top_k", "seed"))


_RUN: Fields = {
    "": ("max_attempts", "accept_at", "seed"),
    CRITIC: ("keep", "judge_last", "derive_checklist"),
    GENERATOR: ("source", "most_images", "seed_rule", "candidates"),
    LIMITS: ("on_failure", "time_budget", "max_draws", "pause"),
}
_TRAINING: Fields = {
    "Optimization": (
        *("learning_rate", "warmup_steps", "weight_decay", "adam_beta2", "optim", "lr_scheduler_type"),
        *("num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps"),
        *("dataloader_num_workers", "train_sampling_strategy", "seed", "rollouts", "prompts", "updates"),
    ),
    "LoRA and precision": ("lora_r", "lora_alpha", "lora_dropout", "load_in_4bit", "freeze_vision", "bf16"),
    "Memory": ("device", "gradient_checkpointing", "image_pixels", "max_length", "max_prompt_length"),
    "Checkpoints and logs": ("save_dtype", "save_steps", "save_every", "tensorboard", "report_to"),
    "Checks during training": (
        *("loss_rows", "early_stopping_patience"),
        *("check_rows", "check_batch", "collapse_threshold"),
    ),
}
_GRPO: Fields = {
    "Answers": ("num_generations", "max_completion_length", "temperature"),
    "Policy loss": ("beta", "epsilon", "epsilon_high", "delta", "scale_rewards"),
    "vLLM": (
        *("use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "vllm_max_model_length"),
        *("vllm_tensor_parallel_size", "vllm_server_base_url"),
    ),
}

MODELS: dict[str, tuple[str, Fields]] = {
    "PlannerOptions": (PLANNER, {"": ("planner",), SAMPLING: _sampling("planner")}),
    "PlanConstraints": (PLANNER, {"": ("style",)}),
    "CastOptions": (PLANNER, {}),
    "RewritingOptions": (PLANNER, {}),
    "StoryCheckOptions": (CRITIC, {}),
    "CriticOptions": (CRITIC, {"": ("critic",), SAMPLING: _sampling("critic")}),
    "DrawingOptions": (GENERATOR, {"": ("size",)}),
    "RunSettings": (LIMITS, _RUN),
    "LocalOptions": (
        LOADING,
        {
            SERVICES: ("service_port", "mixed", "extras", "input_side"),
            GGUF: ("mmproj", "context", "threads", "gpu_layers", "llama_server"),
        },
    ),
    "GeneratorOptions": (GENERATOR, {"": ("generator", "size")}),
    "ServiceOptions": (SERVICES, {}),
    "RewarderOptions": ("Generator and judge of the rewards", {}),
    "JudgeOptions": ("Judge", {"": ("judge",)}),
    "BenchmarkOptions": ("Benchmark", {"": ("max_attempts", "seed")}),
    "TrajectoryOptions": (LIMITS, {"": ("max_attempts", "accept_at", "seed")}),
    "RunsData": (DATA, {}),
    "FilterData": (DATA, {}),
    "PlannerRowsData": (DATA, {}),
    "PromptsData": ("Requests", {}),
    "CardData": ("Dataset card", {}),
    "RewardSettings": ("Reward", {}),
    "PlanRewardSettings": ("Reward", {}),
    "DrawingSettings": ("Generating and scoring", {}),
    "JudgingSettings": ("Judge", {}),
    "GateSettings": ("Regression gate", {}),
    "GgufSettings": ("Conversion to GGUF (--to gguf)", {}),
    "Rehearsal": ("Old rows and split", {}),
    "SftTraining": ("Supervised fine-tuning", _TRAINING),
    "GrpoTraining": ("Reinforcement learning", _TRAINING | _GRPO),
    "GeneratorTraining": ("Training", {}),
    "PlannerRecipe": ("Training", {}),
    "CriticRecipe": ("Training", {}),
    "AblationSettings": ("Experiment", {}),
    "ServedModel": ("Model", {"": ("generator", "devices")}),
    "ServiceSettings": ("Service", {"": ("host", "port")}),
    "ClusterSettings": ("Ray cluster (--ray)", {}),
}
"""Class name: title of its panel, and the fields in other panels (the empty title: before all panels)."""


def panel_of(model: type[Any], field: str) -> str | None:
    """Return the panel title of a field's option, or None if it comes before all panels."""
    for one in model.__mro__:
        if one.__name__ in MODELS:
            title, others = MODELS[one.__name__]
            found = next((other for other, names in others.items() if field in names), title)
            return found or None
    return None

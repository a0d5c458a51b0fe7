"""Settings of GRPO training, and the batches, rollouts and held-out rows that follow from them.

Users count in rollouts and answers. The trainer's own counts (gradient accumulation steps, steps per
generation) are derived here in one place. If they do not divide evenly, or the rows are fewer than those of a
rollout, the error names values that fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from ...backend.core.errors import SettingsError
from ...backend.core.types.values import DIRECT
from ..rows.rl import CriticRlRow, PlannerRlRow, RlRow
from ..trainer.model_loading import ModelTraining

FREE_TO_CHANGE = {
    "device",
    "save_every",
    "check_batch",
    "collapse_threshold",
    "keep_best",
    "tensorboard",
    "report_to",
    "save_dtype",
    "vllm_gpu_memory_utilization",
    "vllm_max_model_length",
    "vllm_tensor_parallel_size",
    "vllm_server_base_url",
}
"""Settings that may change when a training is resumed."""
Row = TypeVar("Row", bound=RlRow)
HELD_OUT = 0.2
"""Largest share of the rows of each truth value (right or wrong image) that is held out for checks."""


class GrpoTraining(ModelTraining):
    """Settings of a critic's GRPO training. The published run is in the recipe paper-8b."""

    learning_rate: float = Field(
        default=2e-6, gt=0, description="Peak learning rate.", json_schema_extra=DIRECT
    )
    lr_scheduler_type: Literal["cosine", "constant_with_warmup"] = Field(
        default="cosine",
        description="Learning rate schedule after the warmup: cosine decay to 0, or constant (published).",
    )
    warmup_steps: float = Field(
        default=0.0, ge=0, description="Warmup steps. A value below 1 is a share of all steps."
    )
    freeze_vision: bool = Field(default=False, description="Do not train the vision tower and its projector.")
    num_train_epochs: float = Field(default=1.0, gt=0, description="Number of passes over the rows.")
    rollouts: int | None = Field(
        default=None, ge=1, description="Total number of rollouts. Replaces --num-train-epochs."
    )
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="Stop after this many optimizer steps, rounded down to whole rollouts of updates "
        "steps. Default: the steps of all rollouts.",
        json_schema_extra=DIRECT,
    )
    prompts: int = Field(default=16, ge=1, description="Rows per rollout, over all devices.")
    num_generations: int = Field(
        default=8,
        ge=2,
        description="Answers sampled for each row (the group size).",
        json_schema_extra=DIRECT,
    )
    updates: int = Field(default=2, ge=1, description="Optimizer steps per rollout.")
    per_device_train_batch_size: int = Field(
        default=8, ge=1, description="Answers per forward pass and device."
    )
    max_prompt_length: int = Field(
        default=16384,
        ge=64,
        description="Maximum prompt length in tokens, images included. Longer rows are an error.",
    )
    max_completion_length: int = Field(
        default=4096, ge=16, description="Maximum length of an answer, in tokens."
    )
    temperature: float = Field(default=1.0, gt=0, le=2, description="Sampling temperature of the answers.")
    beta: float = Field(
        default=0.0,
        ge=0,
        description="Weight of the KL divergence from the starting model. 0: no such penalty.",
    )
    epsilon: float = Field(
        default=0.2,
        gt=0,
        description="Lower clip range: the policy ratio of a token is clipped below 1 minus this.",
    )
    epsilon_high: float = Field(
        default=0.3,
        gt=0,
        description="Upper clip range: the policy ratio of a token is clipped above 1 plus this.",
    )
    delta: float | None = Field(
        default=None,
        gt=1,
        description="Cap on the policy ratio for tokens with negative advantage (dual-clip PPO; 3 in the "
        "published code). Default: no cap.",
    )
    scale_rewards: Literal["group", "batch", "none"] = Field(
        default="group",
        description="Divide a group's rewards by the standard deviation of the group (published), by that of "
        "the batch, or do not scale them.",
    )
    loss_type: Literal["dapo", "grpo", "bnpo", "dr_grpo"] = Field(
        default="dapo",
        description="Average of the loss: over all tokens of a rollout (dapo, published), over the tokens of "
        "each answer and then over answers (grpo), over the tokens of a micro-batch (bnpo), or over answers "
        "of max_completion_length tokens (dr_grpo).",
    )
    mask_truncated_completions: bool = Field(
        default=False, description="Do not learn from answers that reach max_completion_length."
    )
    use_vllm: bool = Field(
        default=False,
        description="Generate the answers with vLLM, which must be installed, instead of the model itself.",
    )
    vllm_mode: Literal["colocate", "server"] = Field(
        default="colocate", description="Run vLLM on the training GPUs (colocate), or use a server."
    )
    vllm_gpu_memory_utilization: float = Field(
        default=0.3, gt=0, lt=1, description="Share of each GPU's VRAM for a colocated vLLM."
    )
    vllm_max_model_length: int | None = Field(
        default=None,
        ge=128,
        description="Context length of a colocated vLLM in tokens. Default: max_prompt_length plus "
        "max_completion_length (the model's own 262,144 tokens would take 36 GiB of VRAM at 8B).",
    )
    vllm_tensor_parallel_size: int = Field(
        default=1,
        ge=1,
        description="GPUs that share the weights of one colocated vLLM. Must divide the number of devices.",
    )
    vllm_server_base_url: str | None = Field(
        default=None,
        max_length=2048,
        description="URL of the vLLM server, such as http://host:8000, for vllm_mode server.",
    )
    save_every: int = Field(
        default=10,
        ge=1,
        description="Rollouts between checkpoints. Every checkpoint is checked on held-out rows.",
    )
    check_rows: int = Field(default=64, ge=2, description="Held-out rows per check.")
    check_batch: int = Field(default=16, ge=1, description="Rows per batch in a check.")
    collapse_threshold: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Training stops if the recall on held-out right or wrong images falls below this value.",
    )

    keep_best: bool = Field(
        default=False,
        description="Use the checkpoint with the best held-out check: the highest mean of both recalls "
        "(planner: match). Default: the last checkpoint. The checks do not measure refined prompts.",
    )

    @property
    def save_steps(self) -> int:
        """Optimizer steps between checkpoints."""
        return self.save_every * self.updates


@dataclass(frozen=True)
class TrainingData(Generic[Row]):
    """Rows to train on and rows to check on, with image paths relative to one folder.

    Rows that cannot be used raise an error, or are left out with `skip_bad`.
    """

    rows: Sequence[Row]
    held_out: Sequence[Row]
    images: Path
    skip_bad: bool = False


def vllm_arguments(settings: GrpoTraining) -> dict[str, Any]:
    """Return trl's arguments for vLLM that do not have the name of a setting.

    Raises:
        SettingsError: The settings contradict each other.
    """
    if not settings.use_vllm:
        return {}
    if settings.vllm_mode == "server":
        address = settings.vllm_server_base_url
        if not re.match(r"https?://[^/]", address or ""):
            given = f"the invalid URL {address!r}" if address else "no URL"
            raise SettingsError(
                f"vllm_mode server has {given}.",
                "Give a URL with http:// or https://, such as vllm_server_base_url http://host:8000.",
            )
        return {}
    whole = settings.max_prompt_length + settings.max_completion_length
    return {"vllm_max_model_length": settings.vllm_max_model_length or whole}


def split_held_out(
    rows: Sequence[CriticRlRow], settings: GrpoTraining
) -> tuple[list[CriticRlRow], list[CriticRlRow]]:
    """Split the rows into (rows to train on, rows to check on).

    Held-out rows are taken from the end of the file, the same number for each truth value and at most
    `HELD_OUT` of them. Training rows that share an image with a held-out row are dropped.

    Raises:
        SettingsError: One of the truth values is missing.
    """
    held = check_rows_of(list(reversed(rows)), settings, HELD_OUT)
    images = {row.edited_image_path for row in held}
    return [row for row in rows if row.edited_image_path not in images], held


def check_rows_of(
    rows: Sequence[CriticRlRow], settings: GrpoTraining, most: float = 1.0
) -> list[CriticRlRow]:
    """Return the first rows of each truth value, half of `settings.check_rows` each.

    At most the share `most` of the rows of a truth value is used.

    Raises:
        SettingsError: All rows have the same truth value. A critic that collapses to always giving this
            verdict would pass every check.
    """
    counts = {True: (settings.check_rows + 1) // 2, False: settings.check_rows // 2}
    for truth in counts:
        available = sum(row.evaluation.success is truth for row in rows)
        if not available:
            raise SettingsError(
                f"None of the {len(rows)} rows has a {'right' if truth else 'wrong'} image to check on.",
                "Add such rows to --data or --held-out.",
            )
        counts[truth] = min(counts[truth], max(1, int(available * most)))
    held: list[CriticRlRow] = []
    for row in rows:
        if counts[row.evaluation.success]:
            counts[row.evaluation.success] -= 1
            held.append(row)
    return held


class PlannerGrpoTraining(GrpoTraining):
    """Settings of a planner's GRPO training; the paper does not publish any."""

    collapse_threshold: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="Training stops if the match of the held-out plans falls below this share of the first "
        "check's.",
    )


def split_planner_rows(
    rows: Sequence[PlannerRlRow], settings: GrpoTraining
) -> tuple[list[PlannerRlRow], list[PlannerRlRow]]:
    """Split the rows into (rows to train on, rows to check on).

    The last rows of the file are held out, at most a fifth of all. Rows with the request of a held-out row
    are dropped from the training rows.

    Raises:
        SettingsError: There are too few rows to hold any out.
    """
    held = min(settings.check_rows, int(len(rows) * HELD_OUT))
    if not held:
        raise SettingsError(
            f"{len(rows)} rows are too few to hold any out for the checks.",
            "Give more rows, or a held-out set with --held-out.",
        )
    checked = list(rows[-held:])
    requests = {row.request for row in checked}
    return [row for row in rows if row.request not in requests], checked


def batches(settings: GrpoTraining, devices: int) -> tuple[int, int]:
    """Return (micro-batches per optimizer step, micro-batches per rollout) of each of `devices`.

    Raises:
        SettingsError: The answers of a rollout cannot be divided evenly.
    """
    answers = settings.prompts * settings.num_generations
    a_step, rest = divmod(answers, settings.updates * settings.per_device_train_batch_size * devices)
    if rest:
        raise SettingsError(
            f"{settings.prompts} prompts x {settings.num_generations} answers = {answers} cannot be divided "
            f"into {settings.updates} updates of micro-batches of {settings.per_device_train_batch_size} on "
            f"{devices} device(s).",
            f"{_advice(settings, settings.prompts, devices)}.",
        )
    return a_step, a_step * settings.updates


def rollouts_of(settings: GrpoTraining, rows: int, devices: int = 1) -> int:
    """Return the number of rollouts of the training.

    Raises:
        SettingsError: The rows or steps are fewer than those of one rollout.
    """
    if rows < settings.prompts:
        raise SettingsError(
            f"{rows} training rows are fewer than the {settings.prompts} rows of one rollout.",
            f"{_advice(settings, rows, devices)}, or give {settings.prompts - rows} more rows.",
        )
    rollouts = settings.rollouts or max(1, math.floor(settings.num_train_epochs * (rows // settings.prompts)))
    if settings.max_steps is None:
        return rollouts
    if settings.max_steps < settings.updates:
        raise SettingsError(
            f"--max-steps {settings.max_steps} is less than the {settings.updates} steps of one rollout.",
            "Raise --max-steps, or lower updates.",
        )
    return min(rollouts, settings.max_steps // settings.updates)


def fitting_values(settings: GrpoTraining, most: int, devices: int = 1) -> dict[str, int]:
    """Return the largest rollout of at most `most` rows that divides evenly, as changed settings.

    The number of answers per row and of updates stays, and a micro-batch does not grow. Empty if no rollout
    of at most `most` rows divides evenly.
    """
    for prompts in range(most, 0, -1):
        answers, rest = divmod(prompts * settings.num_generations, settings.updates * devices)
        if not rest:
            sizes = range(min(settings.per_device_train_batch_size, answers), 0, -1)
            fitting = {
                "prompts": prompts,
                "per_device_train_batch_size": next(size for size in sizes if answers % size == 0),
            }
            return {name: value for name, value in fitting.items() if value != getattr(settings, name)}
    return {}


def _advice(settings: GrpoTraining, most: int, devices: int) -> str:
    fitting = fitting_values(settings, most, devices)
    options = " ".join(f"--set {name}={value}" for name, value in fitting.items())
    return f"Use {options}" if options else "Lower updates"

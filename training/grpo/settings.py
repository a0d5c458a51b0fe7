"""Settings of the critic's reinforcement learning, and what follows from them: batches that come out even,
rows to check on.

Decision: everything is counted in rollouts and in answers, and the trainer's own counts (micro-batches of an
optimiser step, steps of a generation) are derived in one place, with an error where they do not come out
even.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from ...backend.errors import SettingsError
from ..data.rows.rl import CriticRlRow
from ..trainer.model_loading import ModelTraining

FREE_TO_CHANGE = {
    "device",
    "save_every",
    "check_batch",
    "collapse_threshold",
    "tensorboard",
    "report_to",
    "save_dtype",
    "vllm_gpu_memory_utilization",
    "vllm_max_model_length",
    "vllm_tensor_parallel_size",
    "vllm_server_base_url",
}
"""Settings that change nothing of what a stopped training goes on with."""
HELD_OUT = 0.2
"""Largest share of the rows of either truth that is held out of a training to check on."""


class GrpoTraining(ModelTraining):
    """Settings of the critic's reinforcement learning. The published run is the recipe paper-8b."""

    learning_rate: float = Field(default=2e-6, gt=0, description="Peak learning rate.")
    lr_scheduler_type: Literal["cosine", "constant_with_warmup"] = Field(
        default="cosine",
        description="The learning rate after the warm-up: down to 0, or the same (published).",
    )
    warmup_steps: float = Field(
        default=0.0, ge=0, description="Steps of the warm-up; below 1, their share of all steps."
    )
    freeze_vision: bool = Field(
        default=False, description="Keep the vision tower and its projector as they are."
    )
    num_train_epochs: float = Field(default=1.0, gt=0, description="Passes over the rows.")
    rollouts: int | None = Field(default=None, ge=1, description="Rollouts in all, instead of epochs.")
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="Optimiser steps after which it ends, with the learning rate at its end; whole rollouts "
        "of --updates steps each are made of them. Empty: those of the rollouts.",
    )
    prompts: int = Field(default=16, ge=1, description="Rows of one rollout, over all devices.")
    num_generations: int = Field(default=8, ge=2, description="Answers to each row.")
    updates: int = Field(default=2, ge=1, description="Optimiser steps of one rollout.")
    per_device_train_batch_size: int = Field(
        default=8, ge=1, description="Answers in one forward pass on one device."
    )
    max_prompt_length: int = Field(
        default=16384,
        ge=64,
        description="Longest question in tokens, images included; longer ones are an error.",
    )
    max_completion_length: int = Field(default=4096, ge=16, description="Longest answer, in tokens.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Temperature of the sampled answers.")
    beta: float = Field(
        default=0.0, ge=0, description="Weight of the distance to the first model; the paper says 1e-3."
    )
    epsilon: float = Field(default=0.2, gt=0, description="How far a token's ratio may fall below 1.")
    epsilon_high: float = Field(default=0.3, gt=0, description="How far a token's ratio may rise above 1.")
    delta: float | None = Field(
        default=None,
        gt=1,
        description=(
            "Highest ratio with which a token of a bad answer counts (dual clip; published: 3); "
            "empty: no bound."
        ),
    )
    scale_rewards: Literal["group", "batch", "none"] = Field(
        default="group",
        description=(
            "What a group's rewards are divided by: their own spread (published), the batch's, or nothing."
        ),
    )
    use_vllm: bool = Field(
        default=False,
        description="Have vLLM (to be installed) write the answers instead of the model itself.",
    )
    vllm_mode: Literal["colocate", "server"] = Field(
        default="colocate", description="Where vLLM runs: beside the model on its cards, or as a server."
    )
    vllm_gpu_memory_utilization: float = Field(
        default=0.3, gt=0, lt=1, description="Share of each card's memory for a colocated vLLM."
    )
    vllm_max_model_length: int | None = Field(
        default=None,
        ge=128,
        description="Longest question and answer together for which a colocated vLLM keeps a cache; empty: "
        "the sum of both "
        "limits. The model's own 262,144 tokens would take 36 GiB at 8B.",
    )
    vllm_tensor_parallel_size: int = Field(
        default=1, ge=1, description="Cards that share one colocated vLLM's weights; divides the devices."
    )
    vllm_server_base_url: str | None = Field(
        default=None,
        max_length=2048,
        description="Address of a vLLM server, such as http://host:8000 (--vllm-mode server).",
    )
    save_every: int = Field(default=10, ge=1, description="Rollouts between checkpoints; each has a check.")
    check_rows: int = Field(default=64, ge=2, description="Held-out rows that each check asks about.")
    check_batch: int = Field(default=16, ge=1, description="Rows in one batch of a check.")
    collapse_threshold: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Recall on held-out right or wrong images below which training stops.",
    )

    @property
    def save_steps(self) -> int:
        """Optimiser steps between checkpoints."""
        return self.save_every * self.updates


def vllm_arguments(settings: GrpoTraining, devices: int) -> dict[str, Any]:
    """trl's arguments for vLLM that are no settings; raises SettingsError for options that do not go
    together."""
    if not settings.use_vllm:
        return {}
    if settings.vllm_mode == "server":
        address = settings.vllm_server_base_url
        if not re.match(r"https?://[^/]", address or ""):
            raise SettingsError(
                f"--vllm-mode server has {f'the address {address!r}' if address else 'no address'}.",
                "Give one that begins with http:// or https://: --vllm-server-base-url http://host:8000.",
            )
        return {}
    if devices % settings.vllm_tensor_parallel_size:
        raise SettingsError(
            f"{devices} device(s) cannot be shared out to vLLMs on {settings.vllm_tensor_parallel_size} "
            "cards each.",
            "Change --vllm-tensor-parallel-size.",
        )
    return {
        "vllm_max_model_length": vllm_length(settings),
        "vllm_enable_sleep_mode": True,
    }


def vllm_length(settings: GrpoTraining) -> int:
    """Tokens of question and answer for which a colocated vLLM keeps a cache; raises SettingsError if an
    answer could not be finished in it."""
    whole = settings.max_prompt_length + settings.max_completion_length
    length = settings.vllm_max_model_length or whole
    if length < whole:
        raise SettingsError(
            f"--vllm-max-model-length {length} is less than {settings.max_prompt_length} + "
            f"{settings.max_completion_length} tokens.",
            "Raise it, or lower --max-prompt-length or --max-completion-length.",
        )
    return length


def batches(settings: GrpoTraining, devices: int) -> tuple[int, int]:
    """(micro-batches of an optimiser step, of a rollout) on each of `devices`; raises SettingsError if
    uneven."""
    answers = settings.prompts * settings.num_generations
    a_step, rest = divmod(answers, settings.updates * settings.per_device_train_batch_size * devices)
    if rest:
        raise SettingsError(
            f"{settings.prompts} prompts x {settings.num_generations} answers = {answers} do not divide into "
            f"{settings.updates} "
            f"updates of micro-batches of {settings.per_device_train_batch_size} on {devices} device(s).",
            "Change --prompts, --updates or --per-device-train-batch-size.",
        )
    return a_step, a_step * settings.updates


def rollouts_of(settings: GrpoTraining, rows: int) -> int:
    """How many rollouts the training takes; raises SettingsError if there are too few rows or steps for
    one."""
    if rows < settings.prompts:
        raise SettingsError(
            f"There are {rows} rows to train on, but {settings.prompts} in a rollout.",
            "Lower --prompts, or give more rows.",
        )
    rollouts = settings.rollouts or max(1, math.floor(settings.num_train_epochs * (rows // settings.prompts)))
    if settings.max_steps is None:
        return rollouts
    if settings.max_steps < settings.updates:
        raise SettingsError(
            f"--max-steps {settings.max_steps} is less than one rollout of {settings.updates} steps.",
            "Raise it, or lower --updates.",
        )
    return min(rollouts, settings.max_steps // settings.updates)


def split_held_out(
    rows: Sequence[CriticRlRow], settings: GrpoTraining
) -> tuple[list[CriticRlRow], list[CriticRlRow]]:
    """(rows to train on, rows to check on): every check row is taken from the file's end, both truths alike,
    and at most a share of HELD_OUT of each. Rows that share an image with a check row are left out of the
    training."""
    held = check_rows_of(list(reversed(rows)), settings, HELD_OUT)
    images = {row.edited_image_path for row in held}
    return [row for row in rows if row.edited_image_path not in images], held


def check_rows_of(
    rows: Sequence[CriticRlRow], settings: GrpoTraining, most: float = 1.0
) -> list[CriticRlRow]:
    """The first rows of either truth, half of `settings.check_rows` each and at most a share `most` of them.
    Raises SettingsError if there are rows of one truth only: a critic that collapses to always saying the
    other would pass every check."""
    wanted = {True: (settings.check_rows + 1) // 2, False: settings.check_rows // 2}
    for truth in wanted:
        there = sum(row.evaluation.success is truth for row in rows)
        if not there:
            raise SettingsError(
                f"There is no row of a {'right' if truth else 'wrong'} image among {len(rows)} to check on.",
                "Give such rows as well: --data or --held-out.",
            )
        wanted[truth] = min(wanted[truth], max(1, int(there * most)))
    held: list[CriticRlRow] = []
    for row in rows:
        if wanted[row.evaluation.success]:
            wanted[row.evaluation.success] -= 1
            held.append(row)
    return held

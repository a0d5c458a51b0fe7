"""Settings of preference training (DPO), the number of its steps, and its held-out pairs.

Settings have the same names as in the other stages where they mean the same. The paper does not use
preference training, so every default here is a common one, and the recipes say so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ...backend.errors import SettingsError
from ..data.rows.preference import Pair
from ..trainer.step_schedule import StepSchedule

FREE_TO_CHANGE = {
    "device",
    "save_steps",
    "dataloader_num_workers",
    "check_batch",
    "collapse_threshold",
    "tensorboard",
    "report_to",
    "save_dtype",
}
"""Settings that may change when a training is resumed."""
HELD_OUT = 0.2
"""Largest share of the pairs that is held out for checks."""


class DpoTraining(StepSchedule):
    """Settings of preference training (DPO); the paper does not publish any."""

    learning_rate: float = Field(
        default=1e-6, gt=0, description="Peak learning rate, with cosine decay after the warmup."
    )
    num_train_epochs: float = Field(default=1.0, gt=0, description="Number of passes over the pairs.")
    per_device_train_batch_size: int = Field(
        default=4, ge=1, description="Pairs per forward pass and device, with two answers each."
    )
    gradient_accumulation_steps: int = Field(default=8, ge=1, description="Micro-batches per optimizer step.")
    max_length: int = Field(
        default=16384,
        ge=16,
        description="Maximum length of a prompt with one answer in tokens, images included. Longer pairs are "
        "an error.",
    )
    beta: float = Field(
        default=0.1,
        gt=0,
        description="Strength of the KL constraint (DPO's beta). Higher values keep the "
        "model closer to the starting model.",
    )
    loss_type: Literal["sigmoid", "sigmoid_norm", "ipo", "hinge"] = Field(
        default="sigmoid",
        description="Loss: DPO (sigmoid), DPO per token so that length gains nothing (sigmoid_norm), IPO, or "
        "hinge.",
    )
    sft_loss_weight: float = Field(
        default=0.0,
        ge=0,
        description="Weight of an additional SFT loss on the chosen answers. It keeps chosen answers from "
        "becoming less likely.",
    )
    ld_alpha: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="LD-DPO: weight of the tokens beyond the length of the shorter answer. Below 1 it "
        "reduces the effect of length. Default: all tokens count the same.",
    )
    save_steps: int = Field(
        default=50,
        ge=1,
        description="Optimizer steps between checkpoints. Every checkpoint is checked on held-out pairs.",
    )
    check_rows: int = Field(
        default=64, ge=1, description="Held-out pairs per check, at most a fifth of the data."
    )
    check_batch: int = Field(default=16, ge=1, description="Questions per batch in a check.")
    max_completion_length: int = Field(
        default=1024, ge=16, description="Maximum length of an answer in a check, in tokens."
    )
    collapse_threshold: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Training stops if the recall on held-out right or wrong images falls below this value.",
    )


class PlannerDpoTraining(DpoTraining):
    """Settings of a planner's preference training; the paper does not publish any."""

    collapse_threshold: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="Training stops if the match (without a judge: the share of parsable plans) on held-out "
        "requests falls below this share of the first check's.",
    )


def split_pairs(rows: Sequence[Pair], count: int) -> tuple[list[Pair], list[Pair]]:
    """Split the pairs into (pairs to train on, pairs to check on).

    Up to `count` pairs and at most the share `HELD_OUT` are held out, chosen by a hash of their content. No
    subject (a judged image or a request) is in both parts.

    Raises:
        SettingsError: There are too few pairs to hold any out.
    """
    order = {_digest(row.subject): row.subject for row in rows}
    limit, held = min(count, int(len(rows) * HELD_OUT)), set[str]()
    count_held = 0
    for _, subject in sorted(order.items()):
        size = sum(row.subject == subject for row in rows)
        if count_held + size <= limit:
            held.add(subject)
            count_held += size
    checked = [row for row in rows if row.subject in held]
    trained = [row for row in rows if row.subject not in held]
    if not checked or not trained:
        raise SettingsError(
            f"{len(rows)} pairs are too few to hold any out for the checks.",
            "Give more pairs, or a held-out set with --held-out.",
        )
    return trained, checked


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

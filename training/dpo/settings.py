"""Settings of preference training, how many steps follow from them, and its held-out pairs.

Decision: the same words as in the other stages where they mean the same; what is published for preference
training of such agents is nothing, so every default here is a usual one and says so in the recipes.
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
"""Settings that change nothing of what a stopped training goes on with."""
HELD_OUT = 0.2
"""Largest share of the pairs that is held out of a training to check on."""


class DpoTraining(StepSchedule):
    """Settings of preference training (DPO); nothing of it is published."""

    learning_rate: float = Field(
        default=1e-6, gt=0, description="Peak learning rate; cosine after the warm-up."
    )
    num_train_epochs: float = Field(default=1.0, gt=0, description="Passes over the pairs.")
    per_device_train_batch_size: int = Field(
        default=4, ge=1, description="Pairs in one forward pass on one device, two answers each."
    )
    gradient_accumulation_steps: int = Field(default=8, ge=1, description="Such batches per optimiser step.")
    max_length: int = Field(
        default=16384,
        ge=16,
        description="Longest question with one answer in tokens, images included; longer ones are an error.",
    )
    beta: float = Field(
        default=0.1, gt=0, description="How strongly the model is held to the one that it starts from."
    )
    loss_type: Literal["sigmoid", "sigmoid_norm", "ipo", "hinge"] = Field(
        default="sigmoid",
        description="The loss: DPO's, the same a token (length gains nothing), IPO's, or a hinge.",
    )
    sft_loss_weight: float = Field(
        default=0.0,
        ge=0,
        description="Weight of the chosen answers' likelihood beside it, against making both answers rarer.",
    )
    ld_alpha: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="What tokens count past the length of the shorter answer (LD-DPO: below 1, against "
        "length); empty: as all others.",
    )
    save_steps: int = Field(default=50, ge=1, description="Steps between checkpoints; each has a check.")
    check_rows: int = Field(
        default=64, ge=1, description="Held-out pairs of each check, at most a fifth of the data."
    )
    check_batch: int = Field(default=16, ge=1, description="Questions in one batch of a check.")
    max_completion_length: int = Field(
        default=1024, ge=16, description="Longest answer of a check, in tokens."
    )
    collapse_threshold: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Recall on held-out right or wrong images below which training stops.",
    )


class PlannerDpoTraining(DpoTraining):
    """Settings of a planner's preference training; nothing of it is published."""

    collapse_threshold: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="Share of the first check's match (or form) on held-out requests below which training "
        "stops.",
    )


def split_pairs(rows: Sequence[Pair], count: int) -> tuple[list[Pair], list[Pair]]:
    """(pairs to train on, pairs to check on): up to `count` and at most a share of HELD_OUT, chosen by
    content; no subject (an image that is judged, a request) is in both. Raises SettingsError if there are
    too few."""
    order = {_digest(row.subject): row.subject for row in rows}
    wanted, held = min(count, int(len(rows) * HELD_OUT)), set[str]()
    taken = 0
    for _, subject in sorted(order.items()):
        size = sum(row.subject == subject for row in rows)
        if taken + size <= wanted:
            held.add(subject)
            taken += size
    checked = [row for row in rows if row.subject in held]
    trained = [row for row in rows if row.subject not in held]
    if not checked or not trained:
        raise SettingsError(
            f"{len(rows)} pairs are too few to hold any out.", "Give more, or --held-out pairs of their own."
        )
    return trained, checked


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

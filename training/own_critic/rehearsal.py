"""Selects the rows of a user's own critic: new rows, old rows among them, rows for the gate and for GRPO.

Old rows keep the critic from forgetting. They also balance the verdicts of the new rows, so that no
annotation is dropped for balance. Old rows with a question of a new row are dropped, since the newer answer
counts. A minimum number of rows and steps is required: a critic that could not have learned
anything would pass a gate that only tests what it knew before. Both numbers were measured in the tiny world
(benchmarks/notes/training.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from ...backend.errors import SettingsError
from ...backend.feedback.sft_row import SftRow
from ..data.from_runs.convert import MadeData
from ..data.rows.rl import read_rl_rows
from ..data.rows.sft import RowSet, asked_in_both
from ..gate.gate_rows import GateSettings, chosen, content_of, needed, truth_of
from ..grpo.rollouts import batches, fitting_values, rollouts_of
from ..grpo.settings import GrpoTraining, split_held_out
from ..grpo.train import TrainingData
from ..sft.train import SftTraining


class Rehearsal(BaseModel):
    """Settings of the rows that prevent forgetting, and of the minimum size of a training."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    old_share: float = Field(default=0.5, ge=0, lt=1, description="Share of old rows in the training rows.")
    held_out_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Share of the old rows that the gate uses if --held-out is not given.",
    )
    least_rows: int = Field(
        default=40, ge=1, description="Minimum number of different rows from runs to train on."
    )
    least_steps: int = Field(default=20, ge=1, description="Minimum number of optimizer steps.")


def split(old: RowSet, held_share: float, gate: GateSettings) -> tuple[RowSet, RowSet]:
    """Return (held-out rows, remaining rows) of the old rows, chosen by content and the gate's seed.

    The order of the file therefore does not matter. Rows about an image that a held-out row judges are in
    neither.
    """
    count = max(round(held_share * len(old.rows)), 2 * needed(gate))
    held = RowSet(chosen(old.rows, min(gate.gate_rows, count), gate.gate_seed), old.folder)
    judged = {row.images[-1] for row in held.rows if row.images}
    apart = [row for row in old.rows if not row.images or row.images[-1] not in judged]
    return held, without(RowSet(apart, old.folder), held)


def without(rows: RowSet, others: RowSet) -> RowSet:
    """Return the rows whose question is not in `others`."""
    both = set(asked_in_both(rows, others))
    return RowSet([row for number, row in enumerate(rows.rows) if number not in both], rows.folder)


def mix(new: Sequence[SftRow], old: Sequence[SftRow], old_share: float) -> list[SftRow]:
    """Return all new rows, and old ones up to this share of all, chosen so that both verdicts are balanced.

    The choice of old rows is deterministic.
    """
    count = round(len(new) * old_share / (1 - old_share))
    ordered = sorted(old, key=lambda row: hashlib.blake2b(content_of(row).encode(), digest_size=8).digest())
    right, wrong = ([row for row in ordered if truth_of(row) is truth] for truth in (True, False))
    truths = [truth_of(row) for row in new]
    lacking = (len(new) + count) // 2 - truths.count(True)
    first = min(max(0, lacking), count)
    return [*new, *right[:first], *wrong[: count - first]]


def check_rows(new: Sequence[SftRow], rehearsal: Rehearsal) -> None:
    """Raise SettingsError if there are too few different rows to learn anything from."""
    rows = len({row.line() for row in new})
    if rows < rehearsal.least_rows:
        raise SettingsError(
            f"These runs give only {rows} rows to fine-tune on, fewer than the minimum of "
            f"{rehearsal.least_rows}.",
            f"Annotate at least {rehearsal.least_rows - rows} more images, or lower the minimum with "
            f"--least-rows {rows}.",
        )


def check_steps(mixed: int, settings: SftTraining, rehearsal: Rehearsal) -> None:
    """Raise SettingsError if `mixed` rows make too few optimizer steps to learn anything."""
    steps = settings.optimizer_steps(mixed)
    if steps < rehearsal.least_steps:
        epochs = math.ceil(
            rehearsal.least_steps
            / max(1, settings.model_copy(update={"num_train_epochs": 1.0}).optimizer_steps(mixed))
        )
        raise SettingsError(
            f"{mixed} rows make only {steps} optimizer steps, fewer than the minimum of "
            f"{rehearsal.least_steps}.",
            f"Set --num-train-epochs {epochs} or a smaller --per-device-train-batch-size, or lower the "
            "minimum with --least-steps.",
        )


def rl_rows(made: MadeData, settings: GrpoTraining) -> TrainingData:
    """Return the rows of GRPO, before anything is trained.

    Raises:
        SettingsError: There are too few rows.
    """
    if made.rl is None:
        raise SettingsError(
            "No rows for GRPO could be created from these runs: it needs scores that vary.",
            "Set --scorer, lower --rl-variance, or omit --grpo.",
        )
    rows, held = split_held_out(read_rl_rows(made.rl)[0], settings)
    lacking = settings.prompts - len(rows)
    if lacking > 0:
        fitting = fitting_values(settings, len(rows))
        values = " and ".join(f"{name}: {value}" for name, value in fitting.items()) or "fewer updates"
        raise SettingsError(
            f"Only {len(rows)} rows for GRPO; one rollout needs {settings.prompts} (prompts in the recipe).",
            f"Annotate steps with several attempts until there are {lacking} more rows, or set {values} in "
            "the section critic-grpo of a copy of the recipe.",
        )
    rollouts_of(settings, len(rows))
    batches(settings, 1)
    return TrainingData(rows, held, made.folder)

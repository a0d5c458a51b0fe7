"""The rows of an own critic's fine-tuning: all new ones, old ones among them, some held out for the gate, and
enough of it all.

Decisions. Old rows keep the critic from forgetting, and they fill what the new ones lack of a verdict, so
that no annotation is lost for the sake of balance. What the new rows ask is taken out of the old ones: the
newer answer counts. Below a least number of rows or of optimiser steps there is no training, because a critic
that could not have learned anything would be published by a gate that only asks what it still knows; both
numbers are measured in the tiny world (docs/explanation/results-training.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from ...backend.errors import SettingsError
from ...backend.feedback.sft_row import SftRow
from ..data.rows.row_sets import RowSet, asked_in_both
from ..gate.gate_rows import GateSettings, chosen, content_of, needed, truth_of
from ..sft.train import SftTraining


class Rehearsal(BaseModel):
    """The rows that keep a critic from forgetting, and how many of all kinds make a training."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    old_share: float = Field(
        default=0.5, ge=0, lt=1, description="Share of old rows among those that are trained on."
    )
    held_out_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Share of the old rows for the gate, if --held-out names no file.",
    )
    least_rows: int = Field(
        default=40, ge=1, description="Rows from runs, each counted once, below which nothing is trained."
    )
    least_steps: int = Field(default=20, ge=1, description="Optimiser steps below which nothing is trained.")


def split(old: RowSet, held_share: float, gate: GateSettings) -> tuple[RowSet, RowSet]:
    """(held out, the rest): by content and the gate's seed, so that the order of a file changes nothing.

    Rows about an image that a held-out row judges are in neither.
    """
    wanted = max(round(held_share * len(old.rows)), 2 * needed(gate))
    held = RowSet(chosen(old.rows, min(gate.gate_rows, wanted), gate.gate_seed), old.folder)
    judged = {row.images[-1] for row in held.rows if row.images}
    apart = [row for row in old.rows if not row.images or row.images[-1] not in judged]
    return held, without(RowSet(apart, old.folder), held)


def without(rows: RowSet, others: RowSet) -> RowSet:
    """The rows that ask nothing that one of `others` asks."""
    both = set(asked_in_both(rows, others))
    return RowSet([row for number, row in enumerate(rows.rows) if number not in both], rows.folder)


def mix(new: Sequence[SftRow], old: Sequence[SftRow], old_share: float) -> list[SftRow]:
    """All new rows, and old ones (the same ones every time) up to this share of all, of either verdict as
    many as make both verdicts alike."""
    wanted = round(len(new) * old_share / (1 - old_share))
    ordered = sorted(old, key=lambda row: hashlib.blake2b(content_of(row).encode(), digest_size=8).digest())
    right, wrong = ([row for row in ordered if truth_of(row) is truth] for truth in (True, False))
    truths = [truth_of(row) for row in new]
    lacking = (len(new) + wanted) // 2 - truths.count(True)
    first = min(max(0, lacking), wanted)
    return [*new, *right[:first], *wrong[: wanted - first]]


def check_enough(new: Sequence[SftRow], mixed: int, settings: SftTraining, rehearsal: Rehearsal) -> None:
    """Raise SettingsError for too few rows or steps to learn anything from."""
    rows = len({row.line() for row in new})
    if rows < rehearsal.least_rows:
        raise SettingsError(
            (
                f"These runs give {rows} rows to fine-tune on, and from fewer than {rehearsal.least_rows} "
                "little is learned."
            ),
            "Annotate more images or more runs; --least-rows sets another limit.",
        )
    steps = settings.optimizer_steps(mixed)
    if steps < rehearsal.least_steps:
        epochs = math.ceil(
            rehearsal.least_steps
            / max(1, settings.model_copy(update={"num_train_epochs": 1.0}).optimizer_steps(mixed))
        )
        raise SettingsError(
            f"{mixed} rows make {steps} optimiser steps, and little is learned in fewer than "
            f"{rehearsal.least_steps}.",
            f"Give --num-train-epochs {epochs}, or a smaller --per-device-train-batch-size; "
            "--least-steps sets another limit.",
        )

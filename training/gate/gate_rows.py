"""Which held-out rows the gate asks about, and which ones it may not.

Decisions. As many rows of either verdict as there are, up to half of what is asked each, chosen by a seed:
the first rows of a file say nothing about the others, and a critic that always says True passes on rows that
are all right. Where one verdict is too rare for the interval rule of the gate there is no examination, and it
is said before anything is trained. A row that asks what a trained row asks, by text and pixels, is refused:
of such rows one learns what was learned by heart.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

from pydantic import BaseModel, ConfigDict, Field

from ...backend.answers.reading import read_verdict
from ...backend.errors import AnswerError, SettingsError
from ...backend.feedback.sft_row import SftRow
from ..data.rows.lengths import TokenLimit, fitting, shown_of
from ..data.rows.row_sets import RowSet, asked_in_both, question_text
from ..statistics.intervals import cases_for
from ..trainer.model_loading import load_processor

Log = Callable[[str], None]

MIN_DROP = 0.001
"""The smallest drop that can be allowed: none at all would take endless rows to show."""


class GateSettings(BaseModel):
    """What a retrained critic must still be able to do."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    allowed_drop: float = Field(
        default=0.05,
        ge=MIN_DROP,
        le=1,
        description="How far the share of right verdicts on held-out rows may have fallen, at the lower "
        "end of the change's 95 % "
        "interval.",
    )
    allowed_recall_drop: float = Field(
        default=0.1,
        ge=MIN_DROP,
        le=1,
        description="How far either recall (right images, wrong images) may have fallen, at the lower end "
        "of the change's 95 % "
        "interval.",
    )
    gate_rows: int = Field(default=400, ge=2, description="Held-out rows that are asked at most.")
    gate_seed: int = Field(default=0, ge=0, description="Seed by which they are chosen.")
    gate_batch: int = Field(default=16, ge=1, description="Rows asked at once.")
    gate_tokens: int = Field(default=1024, ge=16, description="Longest answer to a held-out row, in tokens.")


def needed(settings: GateSettings) -> int:
    """Rows of either verdict below which even an unchanged critic could not pass."""
    return max(cases_for(settings.allowed_recall_drop), math.ceil(cases_for(settings.allowed_drop) / 2))


def truth_of(row: SftRow) -> bool | None:
    """The verdict that a row teaches, None if it teaches none."""
    try:
        return read_verdict(row.messages[-1].content).success
    except AnswerError:
        return None


def chosen(rows: Sequence[SftRow], most: int, seed: int) -> list[SftRow]:
    """Up to `most` rows that teach a verdict, half of either where there are so many, in turns; equal
    questions once."""
    once = {"\0".join([question_text(row), *row.images]): row for row in rows}
    ordered = sorted(once.values(), key=lambda row: _digest(f"{seed}\0{content_of(row)}"))
    right, wrong = ([row for row in ordered if truth_of(row) is truth] for truth in (True, False))
    first = min(len(right), max(most // 2, most - len(wrong)))
    right, wrong = right[:first], wrong[: most - first]
    even = min(len(right), len(wrong))
    turns = [row for pair in zip(right[:even], wrong[:even], strict=True) for row in pair]
    return [*turns, *right[even:], *wrong[even:]]


def content_of(row: SftRow) -> str:
    """What identifies a row, wherever its file lies: its texts and the names of its images."""
    parts = [*(turn.content for turn in row.messages), *(PurePath(name).name for name in row.images)]
    return "\0".join(parts)


def examination(held_out: RowSet, settings: GateSettings) -> RowSet:
    """The rows that the gate asks about; raises SettingsError if they are too few of either verdict to show
    anything."""
    rows = chosen(held_out.rows, settings.gate_rows, settings.gate_seed)
    least = needed(settings)
    counts = {truth: sum(truth_of(row) is truth for row in rows) for truth in (True, False)}
    if not rows:
        raise SettingsError("None of the held-out rows teaches a verdict.", "Give a critic_sft.json.")
    if min(counts.values()) < least:
        raise SettingsError(
            (
                f"The gate would ask about {counts[True]} right and {counts[False]} wrong images, and needs "
                f"{least} of each."
            ),
            "With fewer, a critic that always says the same could pass, or none. Give more rows of both "
            "kinds: --held-out or "
            "--old, or raise --gate-rows; wider limits (--allowed-recall-drop, --allowed-drop) need fewer.",
        )
    return RowSet(rows, held_out.folder)


def askable(rows: RowSet, checkpoint: Path, limit: TokenLimit, pixels: int, log: Log) -> RowSet:
    """The rows that the critic in `checkpoint` can be asked about, with images of at most `pixels`: within
    the limit, and without the tokenizer's special tokens, which would be read as an image or the end of a
    turn. Raises SettingsError for the first other row unless such rows are skipped."""
    if not rows.rows:
        return rows
    shown = [shown_of(row, rows.folder, pixels) for row in rows.rows]
    good = fitting(rows.rows, shown, load_processor(checkpoint), limit, log, "held-out ")
    return RowSet(good, rows.folder)


def refuse_trained(held_out: RowSet, trained: RowSet) -> None:
    """Raise SettingsError if a held-out row asks what a row asks that is trained on."""
    both = asked_in_both(held_out, trained)
    if not both:
        return
    place = held_out.rows[both[0]].place or f"row {both[0]}"
    raise SettingsError(
        f"{len(both)} of {len(held_out.rows)} held-out rows are trained on as well, the first is {place}.",
        "Give as --held-out rows that are neither in --data nor in --old, by their texts and images.",
    )


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()

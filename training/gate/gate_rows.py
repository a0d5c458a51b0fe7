"""Chooses the held-out rows on which the regression gate compares critics.

Rows of both verdicts are used in equal numbers where possible, chosen by a seed: the first rows of a file may
not represent the others, and a critic that always accepts would pass on rows of right images only. If one
verdict is too rare for the gate's confidence intervals, an error is raised before training. Rows whose
question (text and pixels) is also trained on are refused, since they would only show how well they were
memorized.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.errors import SettingsError
from ...backend.output.sft_rows import SftRow
from ..rows.lengths import TokenLimit, fitting, shown_of
from ..rows.sft import RowSet, asked_in_both, question_text, truth_of
from ..statistics import cases_for
from ..trainer.model_loading import load_processor

Log = Callable[[str], None]

MIN_DROP = 0.001
"""Smallest drop that can be allowed; a limit of zero would need infinitely many rows."""


class GateSettings(BaseModel):
    """Settings of the regression gate: how much worse a retrained critic may judge held-out rows."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    allowed_drop: float = Field(
        default=0.05,
        ge=MIN_DROP,
        le=1,
        description="Largest drop in accuracy on held-out rows: the lower bound of the change's 95 % "
        "confidence interval must not be below minus this.",
    )
    allowed_recall_drop: float = Field(
        default=0.1,
        ge=MIN_DROP,
        le=1,
        description="Largest drop in either recall (right images, wrong images): the lower bound of the "
        "change's 95 % confidence interval must not be below minus this.",
    )
    gate_rows: int = Field(
        default=400, ge=2, description="Maximum number of held-out rows that the gate uses."
    )
    gate_seed: int = Field(default=0, ge=0, description="Seed for choosing these rows.")
    gate_batch: int = Field(default=16, ge=1, description="Rows per batch.")
    gate_items: int = Field(
        default=40,
        ge=0,
        description="Made items of each of the kinds count, color, place and text that the new critic "
        "answers. Its agent card stores which kinds it can judge; 0 skips this.",
    )
    gate_tokens: int = Field(
        default=1024, ge=16, description="Maximum length of an answer to a held-out row, in tokens."
    )


def needed(settings: GateSettings) -> int:
    """Return the number of rows of each verdict below which even an unchanged critic could not pass."""
    return max(cases_for(settings.allowed_recall_drop), math.ceil(cases_for(settings.allowed_drop) / 2))


def chosen(rows: Sequence[SftRow], most: int, seed: int) -> list[SftRow]:
    """Return up to `most` rows that teach a verdict, alternating between both verdicts where possible.

    Of rows with the same question only one is used.
    """
    once = {"\0".join([question_text(row), *row.images]): row for row in rows}
    ordered = sorted(once.values(), key=lambda row: _digest(f"{seed}\0{content_of(row)}"))
    right, wrong = ([row for row in ordered if truth_of(row) is truth] for truth in (True, False))
    first = min(len(right), max(most // 2, most - len(wrong)))
    right, wrong = right[:first], wrong[: most - first]
    even = min(len(right), len(wrong))
    turns = [row for pair in zip(right[:even], wrong[:even], strict=True) for row in pair]
    return [*turns, *right[even:], *wrong[even:]]


def content_of(row: SftRow) -> str:
    """Return the content that identifies a row in any folder: its texts and the file names of its images."""
    parts = [*(turn.content for turn in row.messages), *(PurePath(name).name for name in row.images)]
    return "\0".join(parts)


def examination(
    held_out: RowSet, settings: GateSettings, source: str = "--held-out", annotated_share: float | None = None
) -> RowSet:
    """Return the rows that the gate uses.

    Args:
        held_out: The rows to choose from.
        settings: Settings of the gate.
        source: Option that these rows are from.
        annotated_share: Share of the annotated runs that is held out, if the rows are from these runs.

    Raises:
        SettingsError: There are too few rows of either verdict for the confidence intervals.
    """
    rows = chosen(held_out.rows, settings.gate_rows, settings.gate_seed)
    least = needed(settings)
    counts = {truth: sum(truth_of(row) is truth for row in rows) for truth in (True, False)}
    if not rows:
        raise SettingsError(
            "None of the held-out rows teaches a verdict.", "Give a critic_sft.json as the held-out set."
        )
    if min(counts.values()) < least:
        more = " and ".join(
            f"{math.ceil((least - count) / (annotated_share or 1))} more {'right' if truth else 'wrong'}"
            for truth, count in counts.items()
            if count < least
        )
        if settings.gate_rows < 2 * least:
            hint = f"Set gate_rows to {2 * least} or more."
        elif annotated_share is None:
            hint = f"Add rows about at least {more} images to {source}, or leave it out (then no gate)."
        else:
            hint = (
                f"Annotate about {more} images, because held_out_runs {annotated_share:g} holds out "
                "that share; or give --old."
            )
        raise SettingsError(
            f"The gate needs at least {least} right and {least} wrong images, but the held-out rows have "
            f"{counts[True]} right and {counts[False]} wrong ones.",
            f"{hint} Larger limits (allowed_recall_drop, allowed_drop) need fewer rows.",
        )
    return RowSet(rows, held_out.folder)


def askable(rows: RowSet, checkpoint: Path, limit: TokenLimit, pixels: int, log: Log) -> RowSet:
    """Return the rows that can be put to the critic in `checkpoint`, with images of at most `pixels`.

    They are within the token limit and do not contain the tokenizer's special tokens, which would be read as
    an image or the end of a turn.

    Raises:
        SettingsError: A row cannot be asked, and such rows are not skipped.
    """
    if not rows.rows:
        return rows
    shown = [shown_of(row, rows.folder, pixels) for row in rows.rows]
    good = fitting(rows.rows, shown, load_processor(checkpoint), limit, log, "held-out ")
    return RowSet(good, rows.folder)


def refuse_trained(held_out: RowSet, trained: RowSet) -> None:
    """Check that no held-out row has the question of a training row.

    Raises:
        SettingsError: At least one has.
    """
    both = asked_in_both(held_out, trained)
    if not both:
        return
    place = held_out.rows[both[0]].place or f"row {both[0]}"
    raise SettingsError(
        f"{len(both)} of {len(held_out.rows)} held-out rows are also trained on; the first is {place}.",
        "Use --held-out rows whose texts and images are in neither --data nor --old.",
    )


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()

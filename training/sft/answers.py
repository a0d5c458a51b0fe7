"""Answers before and after a fine-tuning, to rows that it does not learn from.

Decision: an answer to a row that was trained on shows how well it was learned by heart, so the page shows
others: rows that the caller held out, else a few that are taken out of the data first, with every row that
asks the same. Of a set too small to spare any, none are shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...backend.errors import TrainingError
from ...backend.feedback.sft_row import SftRow
from ...backend.files.atomic import write_text
from ...backend.files.bounded_reader import read_json
from ...backend.pictures import Picture
from ..data.rows.conversations import as_prompt_completion
from ..data.rows.row_sets import RowSet
from ..trainer.report.html_report import Answered

MIN_ROWS_PER_HELD_OUT = 20
"""Rows to train on for each that is held out to be shown."""


class AnswerCache:
    """The answers before the first step, in a file: a training that goes on after a kill has no model to ask
    for them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, answers: list[str]) -> list[str]:
        """Store the answers and return them."""
        text = json.dumps(answers, ensure_ascii=False)
        write_text(self.path, text, TrainingError, "The first answers' file")
        return answers

    def read(self) -> list[str]:
        """The stored answers, none if they cannot be read."""
        try:
            found = read_json(self.path, TrainingError)
        except TrainingError:
            return []
        return [str(answer) for answer in found] if isinstance(found, list) else []


def hold_out(rows: Sequence[SftRow], count: int) -> tuple[list[SftRow], list[SftRow]]:
    """(rows to train on, up to `count` rows to show): chosen by content, with every row that asks the same.

    At most one question of MIN_ROWS_PER_HELD_OUT is held out."""
    ordered = sorted({asked(row): row for row in rows}.items())
    held = dict(ordered[: min(count, len(ordered) // MIN_ROWS_PER_HELD_OUT)])
    return [row for row in rows if asked(row) not in held], list(held.values())


def asked(row: SftRow) -> str:
    """A digest of what a row asks: its turns but the last, and the names of its images."""
    parts = [*(f"{turn.role}:{turn.content}" for turn in row.messages[:-1]), *row.images]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def sampled(trainer: Any, processor: Any, rows: RowSet, tokens: int) -> list[str]:
    """The model's greedy answers to these rows: one by one on a GPU, whose memory is full of the
    training's."""
    from ..gate.held_out import greedy_answers

    if not rows.rows:
        return []
    asked = [as_prompt_completion(row, rows.folder) for row in rows.rows]
    model = trainer.accelerator.unwrap_model(trainer.model)
    batch = len(asked) if model.device.type == "cpu" else 1
    return greedy_answers(model, processor, asked, tokens, batch)[0]


def answered(rows: RowSet, before: Sequence[str], after: Sequence[str]) -> list[Answered]:
    """The rows with both answers, as the page shows them."""
    return [
        Answered(
            question=" / ".join(message.content for message in row.messages[:-1])[-2000:],
            images=tuple(Picture.open(rows.folder / name) for name in row.images),
            truth=f"taught: {row.messages[-1].content}",
            before=old,
            after=new,
        )
        for row, old, new in zip(rows.rows, before, after, strict=True)
    ]

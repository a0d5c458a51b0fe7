"""Answers before and after fine-tuning, to rows that are not trained on.

An answer to a training row only shows how well the row was memorized. The report therefore shows rows held
out by the caller, or else a few rows that are removed from the data first, together with every row that has
the same question. A dataset that is too small to spare rows shows none.
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
"""Number of training rows for each row that is held out for the report."""


class AnswerCache:
    """File with the answers before the first step.

    A training that is resumed no longer has the starting model to generate them with.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, answers: list[str]) -> list[str]:
        """Store the answers and return them."""
        text = json.dumps(answers, ensure_ascii=False)
        write_text(self.path, text, TrainingError, "The first answers' file")
        return answers

    def read(self) -> list[str]:
        """Return the stored answers, or an empty list if they cannot be read."""
        try:
            found = read_json(self.path, TrainingError)
        except TrainingError:
            return []
        return [str(answer) for answer in found] if isinstance(found, list) else []


def hold_out(rows: Sequence[SftRow], count: int) -> tuple[list[SftRow], list[SftRow]]:
    """Split the rows into (rows to train on, up to `count` rows to show).

    Held-out rows are chosen by a hash of their content, together with every row that has the same question.
    At most one question in `MIN_ROWS_PER_HELD_OUT` is held out.
    """
    ordered = sorted({asked(row): row for row in rows}.items())
    held = dict(ordered[: min(count, len(ordered) // MIN_ROWS_PER_HELD_OUT)])
    return [row for row in rows if asked(row) not in held], list(held.values())


def asked(row: SftRow) -> str:
    """Return a digest of a row's question: all turns except the last, and the names of its images."""
    parts = [*(f"{turn.role}:{turn.content}" for turn in row.messages[:-1]), *row.images]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def sampled(trainer: Any, processor: Any, rows: RowSet, tokens: int) -> list[str]:
    """Generate greedy answers to these rows, of at most `tokens` tokens.

    On a GPU the rows are processed one by one, since the training state fills its VRAM.
    """
    from ..gate.held_out import greedy_answers

    if not rows.rows:
        return []
    questions = [as_prompt_completion(row, rows.folder) for row in rows.rows]
    model = trainer.accelerator.unwrap_model(trainer.model)
    batch = len(questions) if model.device.type == "cpu" else 1
    return greedy_answers(model, processor, questions, tokens, batch)[0]


def answered(rows: RowSet, before: Sequence[str], after: Sequence[str]) -> list[Answered]:
    """Return the rows with both answers, for the report."""
    return [
        Answered(
            question=" / ".join(message.content for message in row.messages[:-1])[-2000:],
            images=tuple(Picture.open(rows.folder / name) for name in row.images),
            truth=f"target: {row.messages[-1].content}",
            before=old,
            after=new,
        )
        for row, old, new in zip(rows.rows, before, after, strict=True)
    ]

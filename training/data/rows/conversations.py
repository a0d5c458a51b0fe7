"""Rows in the form that trl's trainers read: a prompt, an answer, and images that are opened when a batch
needs them.

Decision: trl's loss is on the answer alone in this form. The literal `<image>` marks become image parts,
because trl would train on the literal and add its own marks besides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....backend.feedback.sft_row import MARK, SftRow
from ....backend.pictures import Picture

if TYPE_CHECKING:
    from datasets import Dataset


def _parts(text: str) -> list[dict[str, str | None]]:
    pieces = re.split(f"({re.escape(MARK)})", text)
    return [
        {"type": "image", "text": None} if piece == MARK else {"type": "text", "text": piece}
        for piece in pieces
        if piece
    ]


def as_prompt_completion(row: SftRow, folder: Path) -> dict[str, Any]:
    """A row in trl's form; image paths are made absolute. What is not to be learned goes with the answer, as
    the trainer passes on no other column."""
    turns = [{"role": message.role, "content": _parts(message.content)} for message in row.messages[:-1]]
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "text", "text": row.messages[-1].content}],
    }
    if row.not_learned:
        answer["not_learned"] = [list(part) for part in row.not_learned]
    images = [str((folder / image).resolve()) for image in row.images]
    return {"prompt": turns, "completion": [answer], "images": images}


def as_dataset(rows: Sequence[SftRow], folder: Path) -> Dataset:
    """The rows as a `datasets.Dataset` whose images are read when a batch needs them."""
    return with_images([as_prompt_completion(row, folder) for row in rows])


def with_images(rows: Sequence[Mapping[str, Any]]) -> Dataset:
    """Rows in trl's form whose `images` are paths, as a `datasets.Dataset` that reads them as agents do when
    a batch needs them (transparent is white, photographs stand upright; the library's own reader makes
    transparent black and fails on some notes of cameras)."""
    from datasets import Dataset

    return Dataset.from_list([dict(row) for row in rows]).with_transform(_read_images)


def _read_images(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    if "images" not in batch:
        return batch
    return {**batch, "images": [[Picture.open(path).image for path in paths] for paths in batch["images"]]}

"""Converts rows to the format of trl's trainers: a prompt, an answer, and images that are opened per batch.

In this format trl computes the loss on the answer only. The literal `<image>` marks become image parts,
because trl would otherwise train on the literal and add marks of its own.
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
    """Return a row in trl's prompt-completion format, with absolute image paths.

    Parts that must not be learned are passed within the answer, as the trainer passes on no other column.
    """
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
    """Return the rows as a `datasets.Dataset` that opens images when a batch needs them."""
    return with_images([as_prompt_completion(row, folder) for row in rows])


def with_images(rows: Sequence[Mapping[str, Any]]) -> Dataset:
    """Return rows in trl's format, with image paths, as a `datasets.Dataset` that opens them per batch.

    Images are opened as by the agents (white background, EXIF orientation applied). The library's own reader
    makes transparent pixels black and fails on some cameras' EXIF data.
    """
    from datasets import Dataset

    return Dataset.from_list([dict(row) for row in rows]).with_transform(_read_images)


def _read_images(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
    if "images" not in batch:
        return batch
    return {**batch, "images": [[Picture.open(path).image for path in paths] for paths in batch["images"]]}

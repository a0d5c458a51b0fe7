"""Reads and checks the SFT data files (list of `{"messages", "images"}`, FORMATS: data files) before anything is loaded.

Decision: rows become trl's prompt / completion / images form, whose loss is on the answer alone by default, and the
literal `<image>` marks become image parts, because trl would train on the literal and add its own marks besides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..backend.errors import SettingsError
from ..backend.sft_rows import MARK, SftMessage, SftRow

if TYPE_CHECKING:
    from datasets import Dataset

MAX_FILE = 4 * 1024**3

__all__ = ["MARK", "SftMessage", "SftRow", "as_dataset", "as_prompt_completion", "read_rows", "write_rows"]


def read_rows(path: Path) -> list[SftRow]:
    """Read a data file; raises SettingsError that names the row, the field and the reason."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise SettingsError(f"Data file {str(path)!r} is larger than {MAX_FILE} bytes.")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"Data file {str(path)!r} cannot be read ({error}).") from error
    if not isinstance(content, list) or not content:
        raise SettingsError(f"Data file {str(path)!r} must hold a list of rows.", "See docs/training.md.")
    rows: list[SftRow] = []
    for number, item in enumerate(content):
        try:
            row = SftRow.model_validate(item)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "row"
            raise SettingsError(f"{path.name}, row {number}, {where}: {first['msg']}.") from error
        for image in row.images:
            if not (path.parent / image).is_file():
                raise SettingsError(f"{path.name}, row {number}, images: {image!r} does not exist.")
        rows.append(row)
    return rows


def write_rows(path: Path, rows: Iterable[SftRow]) -> None:
    """Write a data file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = [row.model_dump() for row in rows]
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _parts(text: str) -> list[dict[str, str | None]]:
    pieces = re.split(f"({re.escape(MARK)})", text)
    return [
        {"type": "image", "text": None} if piece == MARK else {"type": "text", "text": piece}
        for piece in pieces
        if piece
    ]


def as_prompt_completion(row: SftRow, folder: Path) -> dict[str, Any]:
    """A row in trl's form; image paths are made absolute."""
    turns = [{"role": message.role, "content": _parts(message.content)} for message in row.messages[:-1]]
    answer = {"role": "assistant", "content": [{"type": "text", "text": row.messages[-1].content}]}
    images = [str((folder / image).resolve()) for image in row.images]
    return {"prompt": turns, "completion": [answer], "images": images}


def as_dataset(rows: Sequence[SftRow], folder: Path) -> Dataset:
    """The rows as a `datasets.Dataset` whose images are decoded when a batch needs them."""
    from datasets import Dataset, Image, List

    dataset = Dataset.from_list([as_prompt_completion(row, folder) for row in rows])
    return dataset.cast_column("images", List(Image()))

"""How many tokens a row takes, image tokens included, before any model is loaded.

Decision: an upper estimate decides for nearly all rows (text, images and a generous allowance for the template), and only
rows near the cutoff are put through the chat template: a hundred thousand rows are measured in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..backend.chat.pixels import AREA_OF_FEW, AREA_OF_MANY, FEW_IMAGES
from ..backend.errors import SettingsError
from ..backend.pictures import size_of
from ..backend.sft_rows import SftRow
from .data import as_prompt_completion

TEMPLATE_TOKENS = 16
"""More than a chat template adds to a message or an image."""


def area_of(count: int, most: int = AREA_OF_FEW) -> int:
    """The largest area in pixels of each of `count` images of one conversation: as the running agents have it, and at
    most `most`."""
    return min(most, AREA_OF_FEW if count <= FEW_IMAGES else AREA_OF_MANY)


def row_lengths(
    rows: Sequence[SftRow], images: Path, processor: Any, cutoff: int, pixels: int = AREA_OF_FEW
) -> list[int]:
    """Tokens of each row: exact where the upper estimate is above `cutoff`, else that estimate. Images have at most
    `pixels`."""
    sizes: dict[str, tuple[int, int]] = {}
    lengths: list[int] = []
    for start in range(0, len(rows), 4096):
        part = rows[start : start + 4096]
        texts = ["".join(message.content for message in row.messages) for row in part]
        encoded = processor.tokenizer(texts, add_special_tokens=False)["input_ids"]
        for row, ids in zip(part, encoded, strict=True):
            pictures = _image_tokens(row, images, processor, sizes, pixels)
            estimate = len(ids) + pictures + TEMPLATE_TOKENS * (len(row.messages) + len(row.images) + 1)
            lengths.append(estimate if estimate <= cutoff else _exact(row, images, processor) + pictures)
    return lengths


def _exact(row: SftRow, images: Path, processor: Any) -> int:
    """Tokens of the row through the chat template, without what its images take."""
    parts = as_prompt_completion(row, images)
    text = processor.apply_chat_template([*parts["prompt"], *parts["completion"]], tokenize=False)
    return len(processor.tokenizer(text, add_special_tokens=False)["input_ids"]) - len(row.images)


def _image_tokens(
    row: SftRow, images: Path, processor: Any, sizes: dict[str, tuple[int, int]], pixels: int
) -> int:
    """Tokens of the row's images at the size at which they are shown."""
    area, reader = area_of(len(row.images), pixels), processor.image_processor
    tokens = 0
    for name in row.images:
        if name not in sizes:
            sizes[name] = size_of(images / name)
        width, height = sizes[name]
        scale = min(1.0, (area / (width * height)) ** 0.5)
        shape = max(1, int(height * scale)), max(1, int(width * scale))
        try:
            tokens += reader.get_number_of_image_patches(*shape, {}) // reader.merge_size**2
        except ValueError as error:
            where = row.place or "a row"
            raise SettingsError(
                f"{where.capitalize()}, images: {name!r} is {width}x{height} pixels ({error}).",
                "Leave the row out, or show the image in another shape.",
            ) from error
    return tokens

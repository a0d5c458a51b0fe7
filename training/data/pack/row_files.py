"""Reads the row files of a folder, as written by `data filter`, `planner-rows` and `sequences`, for packing.

A packed row is the row as it is in its file, and its images' bytes as they are on disk. Nothing is decoded or
encoded again, so that unpacking gives what was packed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ....backend.errors import PictureError, SettingsError
from ....backend.files.bounded_reader import read_bytes
from ....backend.files.image_places import ImagePlaces
from ....backend.pictures import MAX_BYTES
from ..rows.rl import WHITE_PAGE, CriticRlRow
from ..rows.row_kinds import kind_of
from ..rows.values import RowProblem, read_values

HELD_OUT = "_held_out"
NO_ROWS = {"report", "failed", "ledger"}
IMAGE_FIELDS = ("origin_image_path", "edited_image_path")


@dataclass(frozen=True)
class RowFile:
    """A file of rows; its name determines its set and split."""

    path: Path

    @property
    def name(self) -> str:
        """Name of its set."""
        return self.path.stem.removesuffix(HELD_OUT)

    @property
    def split(self) -> str:
        """Its split, "train" or "test"."""
        return "test" if self.path.stem.endswith(HELD_OUT) else "train"

    @cached_property
    def is_rl(self) -> bool:
        """Whether its rows are for GRPO of the critic, with an image before and after the edit.

        Raises:
            SettingsError: The file cannot be read.
        """
        return kind_of(next(self.objects(), None)) == CriticRlRow.stage

    def rows(self, gone: list[str] | None = None) -> Iterator[PackedRow]:
        """Yield its rows in order.

        A row with a missing or unreadable image is skipped and added to `gone`, or raises an error without
        it.

        Raises:
            SettingsError: A row cannot be read.
            PictureError: An image is damaged.
        """
        places = ImagePlaces(self.path.parent, SettingsError)
        for number, row in enumerate(self.objects()):
            place = f"{self.path.name}, row {number}"
            if not isinstance(row, dict):
                raise SettingsError(f"{place} is not a JSON object.", "See docs/reference/file-formats.md.")
            names = [_unless_white(row.get(field)) for field in IMAGE_FIELDS]
            names = names if self.is_rl else row.get("images", [])
            if not isinstance(names, list):
                raise SettingsError(f"{place}: images is not a list.", "See docs/reference/file-formats.md.")
            try:
                images = tuple(_image(name, places, place) for name in names if isinstance(name, str))
            except (PictureError, SettingsError) as error:
                if gone is None:
                    raise
                gone.append(error.message if place in error.message else f"{place}: {error.message}")
                continue
            yield PackedRow(row, images, number)

    def objects(self) -> Iterator[Any]:
        """Yield its content, unchecked.

        Raises:
            SettingsError: The file does not contain rows.
        """
        for place, item in read_values(self.path):
            if isinstance(item, RowProblem):
                raise SettingsError(f"{self.path.name}, {place}: {item.reason}", "Fix the row, or remove it.")
            yield item


@dataclass(frozen=True)
class PackedRow:
    """A row as it is in its file, the bytes of its images in order, and its index there, from 0."""

    row: dict[str, Any]
    images: tuple[bytes, ...]
    number: int = 0

    def line(self) -> str:
        """Return the row as JSON."""
        return json.dumps(self.row, ensure_ascii=False, sort_keys=True)


def files_of_folders(folders: Sequence[Path]) -> list[RowFile]:
    """Return the row files in several folders.

    Raises:
        SettingsError: A folder has none, or two folders have files with the same name.
    """
    found: dict[str, RowFile] = {}
    for folder in folders:
        for file in row_files(folder):
            other = found.setdefault(file.path.name, file)
            if other is not file:
                raise SettingsError(
                    f"{str(other.path)!r} and {str(file.path)!r} have the same name.", "Pack them separately."
                )
    return list(found.values())


def row_files(folder: Path) -> list[RowFile]:
    """Return the row files in a folder; raises SettingsError if there are none."""
    if not folder.is_dir():
        raise SettingsError(
            f"The folder {str(folder)!r} does not exist.", "Give the --out folder of another stage."
        )
    paths = [*folder.glob("*.json"), *folder.glob("*.jsonl")]
    found = [RowFile(path) for path in sorted(paths) if path.stem.partition(".")[0] not in NO_ROWS]
    if not found:
        raise SettingsError(
            f"{str(folder)!r} does not contain row files.", "Give the --out folder of another stage."
        )
    return found


def _unless_white(name: Any) -> Any:
    """Return the name of an image, or None for the published white source image."""
    return None if isinstance(name, str) and WHITE_PAGE.search(name) else name


def _image(name: str, places: ImagePlaces, place: str) -> bytes:
    file = places.find(name)
    if file is None:
        raise SettingsError(
            f"{place}: the image {name!r} does not exist.", "Copy it there, or use --skip-bad."
        )
    return read_bytes(file, MAX_BYTES, PictureError, "Image")

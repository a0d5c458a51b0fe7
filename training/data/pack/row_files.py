"""The row files of a folder, as `data filter`, `planner-rows` and `sequences` leave them, read for packing.

Decision: a packed row is the row as it stood in its file and its images' bytes as they lay beside it, nothing
decoded and nothing written anew, so that what is unpacked is what was packed.
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
    """A file of rows: which set and split it is of, by its name."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem.removesuffix(HELD_OUT)

    @property
    def split(self) -> str:
        return "test" if self.path.stem.endswith(HELD_OUT) else "train"

    @cached_property
    def is_rl(self) -> bool:
        """Whether its rows are redraws, with an image before and one after; raises SettingsError."""
        return kind_of(next(self.objects(), None)) == CriticRlRow.stage

    def rows(self, gone: list[str] | None = None) -> Iterator[PackedRow]:
        """Its rows in their order; raises SettingsError for one that cannot be read. A row with an image that
        is not there, or cannot be read, is passed over and noted in `gone`; without it that is an error,
        too."""
        places = ImagePlaces(self.path.parent, SettingsError)
        for number, row in enumerate(self.objects()):
            place = f"{self.path.name}, row {number}"
            if not isinstance(row, dict):
                raise SettingsError(f"{place} is no object.", "See docs/reference/file-formats.md.")
            names = [_unless_white(row.get(field)) for field in IMAGE_FIELDS]
            names = names if self.is_rl else row.get("images", [])
            if not isinstance(names, list):
                raise SettingsError(f"{place}: its images are no list.")
            try:
                images = tuple(_image(name, places, place) for name in names if isinstance(name, str))
            except (PictureError, SettingsError) as error:
                if gone is None:
                    raise
                gone.append(error.message if place in error.message else f"{place}: {error.message}")
                continue
            yield PackedRow(row, images, number)

    def objects(self) -> Iterator[Any]:
        """What stands in it, unchecked; raises SettingsError for a file that is none of rows."""
        for place, item in read_values(self.path):
            if isinstance(item, RowProblem):
                raise SettingsError(f"{self.path.name}, {place}: {item.reason}")
            yield item


@dataclass(frozen=True)
class PackedRow:
    """A row as it stood in its file, the bytes of its images in their order, and its number there, from
    0."""

    row: dict[str, Any]
    images: tuple[bytes, ...]
    number: int = 0

    def line(self) -> str:
        """The row as JSON."""
        return json.dumps(self.row, ensure_ascii=False, sort_keys=True)


def files_of_folders(folders: Sequence[Path]) -> list[RowFile]:
    """The row files in several folders; raises SettingsError if one holds none, or two hold files of one
    name."""
    found: dict[str, RowFile] = {}
    for folder in folders:
        for file in row_files(folder):
            other = found.setdefault(file.path.name, file)
            if other is not file:
                raise SettingsError(
                    f"{str(other.path)!r} and {str(file.path)!r} have one name.", "Pack them apart."
                )
    return list(found.values())


def row_files(folder: Path) -> list[RowFile]:
    """The row files in a folder; raises SettingsError if there are none."""
    if not folder.is_dir():
        raise SettingsError(f"There is no folder {str(folder)!r}.", "Give the --out folder of another stage.")
    paths = [*folder.glob("*.json"), *folder.glob("*.jsonl")]
    found = [RowFile(path) for path in sorted(paths) if path.stem.partition(".")[0] not in NO_ROWS]
    if not found:
        raise SettingsError(f"{str(folder)!r} holds no rows.", "Give the --out folder of another stage.")
    return found


def _unless_white(name: Any) -> Any:
    """The name of an image, None for the published page before an image that was drawn from text."""
    return None if isinstance(name, str) and WHITE_PAGE.search(name) else name


def _image(name: str, places: ImagePlaces, place: str) -> bytes:
    file = places.find(name)
    if file is None:
        raise SettingsError(f"{place}: there is no image {name!r}.")
    return read_bytes(file, MAX_BYTES, PictureError, "Image")

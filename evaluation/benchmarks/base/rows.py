"""Rows of a benchmark's data, as the user has them: a JSON list, JSON lines, parquet, or a folder of them.

Decisions. A benchmark that is read in part would give a figure of another benchmark, so a row without a
field that is needed, an id that stands there twice and an image that is missing end the reading. Ids and
categories become names of files and folders in a submission: one that could lead out of it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ....backend.errors import PictureError, SettingsError
from ....backend.files.bounded_reader import read_json
from ....backend.files.image_places import ImagePlaces
from ....backend.files.names import name_fault
from ....backend.pictures import Picture, mode_of
from ....backend.types import MAX_TEXT
from ....training.data.decontamination.benchmarks import files_of, rows_of
from .benchmark import BenchmarkData, BenchmarkItem, BenchmarkTerms, ItemFault

SURROGATE = re.compile("[\ud800-\udfff]")
MAX_NAME = 200
"""Bytes of an id or category: the files that are named after it have a number and an ending besides."""


def data_path(data: BenchmarkData, name: str, terms: BenchmarkTerms, *inner: str) -> Path:
    """The path that was given, or what of `inner` is below it. Raises SettingsError that says where the data
    is to be had."""
    if data.path is None:
        raise SettingsError(
            f"{terms.title}: no data was given, and none comes with this package.", terms.how(name)
        )
    if not data.path.exists():
        raise SettingsError(f"There is no {str(data.path)!r}.", terms.how(name))
    return next((data.path / one for one in inner if (data.path / one).exists()), data.path)


def read_rows(path: Path, fields: Collection[str], more: Collection[str] = ()) -> list[dict[str, Any]]:
    """The rows of a file or folder, each with all of `fields`; of parquet these and `more` are read. Raises
    SettingsError."""
    rows: list[dict[str, Any]] = []
    for file in files_of(path):
        for number, row in enumerate(rows_of(file, {*fields, *more}), 1):
            lacking = [one for one in fields if not isinstance(row, dict) or row.get(one) in (None, "")]
            if lacking:
                raise SettingsError(
                    f"{str(file)!r}, row {number} has no {lacking[0]!r}.", "Is it the right file?"
                )
            rows.append(row)
    if not rows:
        raise SettingsError(f"{str(path)!r} holds no row.")
    return rows


def checked(items: list[BenchmarkItem], split: str) -> list[BenchmarkItem]:
    """The items of the split; raises SettingsError where an id stands twice, an id or category cannot name a
    file, a text is empty or too long, and where the split has no item."""
    seen: set[str] = set()
    for item in items:
        fault = _name_fault(item.id) or ("stands in the data twice" if item.id in seen else "")
        if fault:
            raise SettingsError(f"The id {item.id[:80]!r} {fault}.", "Is it the right file?")
        fault = _name_fault(item.category)
        if fault:
            raise SettingsError(f"The category {item.category[:80]!r} {fault}.", "Is it the right file?")
        fault = _text_fault(item.text)
        if fault:
            raise SettingsError(f"The text of {item.id[:80]!r} {fault}.", "Is it the right file?")
        seen.add(item.id)
    if not split:
        return items
    found = [item for item in items if item.category == split]
    if not found:
        known = ", ".join(sorted({item.category for item in items}))
        raise SettingsError(f"There is no split {split!r} in this data.", f"There are: {known}.")
    return found


def _name_fault(name: str) -> str:
    fault = name_fault(name)
    if not fault and len(name.encode()) > MAX_NAME:
        return f"is longer than {MAX_NAME} bytes"
    return fault


def _text_fault(text: str) -> str:
    if not 0 < len(text) <= MAX_TEXT:
        return f"has {len(text)} characters, not 1 to {MAX_TEXT}"
    return "has half a sign (a lone surrogate)" if SURROGATE.search(text) else ""


def text_in(row: Mapping[str, Any], name: str) -> str:
    """A field that must be a text; raises SettingsError."""
    if not isinstance(row[name], str) or not row[name].strip():
        raise SettingsError(f"{name!r} of {str(row)[:80]} is no text.", "Is it the right file?")
    return row[name]


def id_in(row: Mapping[str, Any], name: str) -> str:
    """An id, as a text; raises SettingsError for one that is neither a text nor a whole number."""
    value = row[name]
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise SettingsError(
            f"{name!r} of {str(row)[:80]} is neither a text nor a whole number.", "Is it the right file?"
        )
    return str(value)


class ImageFinder:
    """Finds the images that rows name, below the data's folder or the folder given."""

    def __init__(self, folder: Path, root: Path | None) -> None:
        self._places = ImagePlaces(folder, SettingsError, root)

    def find(self, names: Collection[Any]) -> tuple[Path, ...]:
        """Their files, in this order; raises SettingsError for one that is not there."""
        found = []
        for name in names:
            file = self._places.find(name) if isinstance(name, str) else None
            if file is None:
                raise SettingsError(
                    f"There is no image {str(name)[:200]!r}.", "Give its folder: --images FOLDER."
                )
            found.append(file)
        return tuple(found)


def image_fault(item: BenchmarkItem, path: Path) -> ItemFault | None:
    """What is wrong with an image file: none there, damaged, or not RGB."""
    if not path.is_file():
        return ItemFault(item.id, f"there is no {path.name}")
    try:
        mode = mode_of(path)
    except PictureError as error:
        return ItemFault(item.id, f"{path.name} cannot be read ({error.message[:200]})")
    return None if mode == "RGB" else ItemFault(item.id, f"{path.name} is {mode}, not RGB")


def write_image(path: Path, picture: Picture) -> None:
    """Write an image as the ending of the path says (PNG or JPEG). Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        path.write_bytes(picture.png())
    else:
        picture.image.convert("RGB").save(path, "JPEG", quality=95)


def results_json(path: Path) -> Any:
    """An evaluator's results in JSON; raises SettingsError."""
    return read_json(path, SettingsError, "Results")


def results_object(path: Path) -> dict[str, Any]:
    """An evaluator's results in JSON that are an object; raises SettingsError."""
    content = results_json(path)
    if not isinstance(content, dict):
        raise SettingsError(f"{str(path)!r} is no object of results.", "Are these the evaluator's results?")
    return content

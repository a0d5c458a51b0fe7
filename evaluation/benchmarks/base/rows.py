"""Rows of a benchmark's data in the user's format: a JSON list, JSON lines, parquet or a folder of them.

Reading only part of a benchmark would produce figures of a different benchmark. A row with a missing field, a
duplicate id or a missing image is therefore an error. Ids and categories become names of files and folders in
the submission, so names that could leave that folder are rejected.
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
"""Maximum size of an id or category, in bytes. File names also contain a number and an extension."""


def data_path(data: BenchmarkData, name: str, terms: BenchmarkTerms, *inner: str) -> Path:
    """Return the path of the data, or the first of `inner` that exists below it.

    Raises:
        SettingsError: If no path was given or it does not exist. The hint says where to get the data.
    """
    if data.path is None:
        raise SettingsError(
            f"{terms.title} needs data, which this package does not include.", terms.how(name)
        )
    if not data.path.exists():
        raise SettingsError(f"The data path {str(data.path)!r} does not exist.", terms.how(name))
    return next((data.path / one for one in inner if (data.path / one).exists()), data.path)


def read_rows(path: Path, fields: Collection[str], more: Collection[str] = ()) -> list[dict[str, Any]]:
    """Read the rows of a file or folder.

    Args:
        path: File or folder.
        fields: Required fields.
        more: Optional fields; from parquet only `fields` and these are read.

    Raises:
        SettingsError: If a row lacks a field, or the data is empty.
    """
    rows: list[dict[str, Any]] = []
    for file in files_of(path):
        for number, row in enumerate(rows_of(file, {*fields, *more}), 1):
            lacking = [one for one in fields if not isinstance(row, dict) or row.get(one) in (None, "")]
            if lacking:
                raise SettingsError(
                    f"Row {number} of {str(file)!r} has no field {lacking[0]!r}.",
                    "Check that this is the file of the benchmark.",
                )
            rows.append(row)
    if not rows:
        raise SettingsError(f"{str(path)!r} contains no rows. Check that it is the data of the benchmark.")
    return rows


def checked(items: list[BenchmarkItem], split: str) -> list[BenchmarkItem]:
    """Check the items and return those of the split.

    Raises:
        SettingsError: If an id is duplicated, an id or category cannot name a file, a text is empty or too
            long, or the split has no items.
    """
    seen: set[str] = set()
    for item in items:
        fault = _name_fault(item.id) or ("occurs twice in the data" if item.id in seen else "")
        if fault:
            raise SettingsError(
                f"The id {item.id[:80]!r} {fault}.", "Check that this is the file of the benchmark."
            )
        fault = _name_fault(item.category)
        if fault:
            raise SettingsError(
                f"The category {item.category[:80]!r} {fault}.",
                "Check that this is the file of the benchmark.",
            )
        fault = _text_fault(item.text)
        if fault:
            raise SettingsError(
                f"The text of {item.id[:80]!r} {fault}.", "Check that this is the file of the benchmark."
            )
        seen.add(item.id)
    if not split:
        return items
    found = [item for item in items if item.category == split]
    if not found:
        known = ", ".join(sorted({item.category for item in items}))
        raise SettingsError(f"The data has no split {split!r}.", f"Choose one of: {known}.")
    return found


def _name_fault(name: str) -> str:
    fault = name_fault(name)
    if not fault and len(name.encode()) > MAX_NAME:
        return f"is longer than {MAX_NAME} bytes"
    return fault


def _text_fault(text: str) -> str:
    if not 0 < len(text) <= MAX_TEXT:
        return f"has {len(text)} characters; 1 to {MAX_TEXT} are allowed"
    return "contains an invalid character (a lone surrogate)" if SURROGATE.search(text) else ""


def text_in(row: Mapping[str, Any], name: str) -> str:
    """Return a text field of a row.

    Raises:
        SettingsError: If it is not a string or is empty.
    """
    if not isinstance(row[name], str) or not row[name].strip():
        raise SettingsError(
            f"Field {name!r} of row {str(row)[:80]} is not a text.",
            "Check that this is the file of the benchmark.",
        )
    return row[name]


def id_in(row: Mapping[str, Any], name: str) -> str:
    """Return an id of a row as a string.

    Raises:
        SettingsError: If it is neither a string nor a whole number.
    """
    value = row[name]
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise SettingsError(
            f"Field {name!r} of row {str(row)[:80]} is neither a text nor a whole number.",
            "Check that this is the file of the benchmark.",
        )
    return str(value)


class ImageFinder:
    """Finds the images that rows name, in the folder of the data or a given folder."""

    def __init__(self, folder: Path, root: Path | None) -> None:
        self._places = ImagePlaces(folder, SettingsError, root)

    def find(self, names: Collection[Any]) -> tuple[Path, ...]:
        """Return the files of the images, in this order.

        Raises:
            SettingsError: If an image does not exist.
        """
        found = []
        for name in names:
            file = self._places.find(name) if isinstance(name, str) else None
            if file is None:
                raise SettingsError(
                    f"The image {str(name)[:200]!r} was not found.",
                    "Pass the folder that contains it: --images FOLDER.",
                )
            found.append(file)
        return tuple(found)


def image_fault(item: BenchmarkItem, path: Path) -> ItemFault | None:
    """Return the fault of an image file: missing, damaged or not RGB. `None` if it is fine."""
    if not path.is_file():
        return ItemFault(item.id, f"{path.name} is missing")
    try:
        mode = mode_of(path)
    except PictureError as error:
        return ItemFault(item.id, f"{path.name} cannot be read ({error.message[:200]})")
    return None if mode == "RGB" else ItemFault(item.id, f"{path.name} is {mode}, not RGB")


def write_image(path: Path, picture: Picture) -> None:
    """Write an image as PNG or JPEG, by the extension of the path.

    Raises:
        OSError: If the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        path.write_bytes(picture.png())
    else:
        picture.image.convert("RGB").save(path, "JPEG", quality=95)


def results_json(path: Path) -> Any:
    """Read an evaluator's results as JSON.

    Raises:
        SettingsError: If the file cannot be read.
    """
    return read_json(path, SettingsError, "Results")


def results_object(path: Path) -> dict[str, Any]:
    """Read an evaluator's results as a JSON object.

    Raises:
        SettingsError: If the file cannot be read or is not an object.
    """
    content = results_json(path)
    if not isinstance(content, dict):
        raise SettingsError(
            f"{str(path)!r} is not a JSON object with results.", "Pass the results of the official evaluator."
        )
    return content

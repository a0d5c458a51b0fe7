"""Files of benchmarks: rows of the user's data, images and folders of submissions, results of evaluators.

Data is a JSON list, JSON lines, parquet or a folder of them. Reading only part of a benchmark would produce
figures of a different benchmark. A row with a missing field, a duplicate id or a missing image is therefore
an error. Ids and categories become names of files and folders in the submission, so names that could leave
that folder are rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...backend.core.errors import PictureError, SettingsError
from ...backend.core.files.atomic import name_fault, write_text
from ...backend.core.files.bounded_reader import parse_json, read_bytes_if_any, read_json
from ...backend.core.files.image_places import ImagePlaces
from ...backend.core.pictures import Picture, mode_of
from ...backend.core.types import MAX_TEXT
from ..data.data_files import files_of, rows_of
from .benchmark import (
    Answers,
    Benchmark,
    BenchmarkData,
    BenchmarkItem,
    BenchmarkTerms,
    ItemAnswer,
    ItemFault,
    SubmissionPlace,
)

SURROGATE = re.compile("[\ud800-\udfff]")
MAX_NAME = 200
"""Maximum size of an id or category, in bytes. File names also contain a number and an extension."""
MAX_FIGURE = 1e12
GRAY, GAP_SIZE = (128, 128, 128), (512, 512)
CONTENT = "response.json"
MAX_CONTENT = 16 * 1024 * 1024
WRONG_FILE = "Check that this is the file of the benchmark."


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
                    WRONG_FILE,
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
        twice = "occurs twice in the data" if item.id in seen else ""
        faults = {
            f"id {item.id[:80]!r}": _name_fault(item.id) or twice,
            f"category {item.category[:80]!r}": _name_fault(item.category),
            f"text of {item.id[:80]!r}": _text_fault(item.text),
        }
        for what, fault in faults.items():
            if fault:
                raise SettingsError(f"The {what} {fault}.", WRONG_FILE)
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
            WRONG_FILE,
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
            WRONG_FILE,
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


def given(results: Path | None, what: str) -> Path:
    """Return the path of the evaluator's results.

    Raises:
        SettingsError: If no path was given.
    """
    if results is None:
        raise SettingsError(
            "This benchmark is scored by its official evaluator, and no results were given.",
            f"Run the evaluator on the submission, then pass --results {what}.",
        )
    return results


def write_json(path: Path, content: Any) -> Path:
    """Write a JSON file for an evaluator and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, ensure_ascii=False) + "\n", SettingsError, "Evaluator's data")
    return path


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    """Write JSON lines for an evaluator and return their path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_text(path, lines, SettingsError, "Evaluator's data")
    return path


def link(path: Path, target: Path) -> Path:
    """Create a link with a name that the evaluator expects, and return it.

    Raises:
        SettingsError: If the link cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.symlink_to(target.resolve())
    except OSError as error:
        raise SettingsError(f"Cannot create the link {str(path)!r}: {error.strerror or error}.") from error
    return path


def numbers_in(content: Any, names: Mapping[str, str]) -> dict[str, float]:
    """Select finite numbers from an evaluator's summary.

    Args:
        content: The summary.
        names: Names in the summary, with the names to return them under.
    """
    found = {shown: content.get(name) for name, shown in names.items()} if isinstance(content, dict) else {}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_FIGURE
    }


class OneImageBenchmark(Benchmark):
    """A benchmark whose submission has one image per item: the last one of the answer.

    A gap is filled with a plain gray image, because these evaluators abort or report no figure if a file is
    missing.
    """

    needs_image = True

    def places(self, folder: Path, item: BenchmarkItem) -> list[Path]:
        """Return where the evaluator looks for an item's image, by priority. Images go to the first."""
        return [folder / f"{item.id}.png"]

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write one image per item.

        Raises:
            OSError: If a file cannot be written.
        """
        for item, answer in answers:
            write_image(self.places(place.folder, item)[0], _last_picture(answer))
        return []

    def fault(self, folder: Path, item: BenchmarkItem) -> ItemFault | None:
        """Return whether the image is missing, damaged or not RGB."""
        places = self.places(folder, item)
        return image_fault(item, next((one for one in places if one.exists()), places[0]))


def _last_picture(answer: ItemAnswer | None) -> Picture:
    if answer is None or not answer.pictures:
        from PIL import Image

        return Picture(Image.new("RGB", GAP_SIZE, GRAY))
    return answer.pictures[-1]


class ContentBenchmark(Benchmark):
    """A benchmark whose submission has a folder per item.

    `ID/response.json` lists texts and images in order, next to the image files. An item without an answer has
    an empty list.
    """

    def write(self, place: SubmissionPlace, answers: Answers) -> list[str]:
        """Write one folder per item.

        Raises:
            OSError: If a file cannot be written.
        """
        for item, answer in answers:
            folder = place.folder / item.id
            folder.mkdir(parents=True)
            content = [] if answer is None else _content(folder, answer)
            text = json.dumps({"content": content}, ensure_ascii=False, indent=1) + "\n"
            (folder / CONTENT).write_bytes(text.encode("utf-8", "replace"))
        return []

    def fault(self, folder: Path, item: BenchmarkItem) -> ItemFault | None:
        """Return why the item would not be judged."""
        return read_content(folder, item)[1]


def _content(folder: Path, answer: ItemAnswer) -> list[dict[str, str]]:
    content: list[dict[str, str]] = []
    pictures = 0
    for step in answer.steps:
        if step.text:
            content.append({"type": "text", "text": step.text})
        if step.picture is not None:
            pictures += 1
            write_image(folder / f"{pictures}.png", step.picture)
            content.append({"type": "image", "image": f"{pictures}.png"})
    return content


def read_content(folder: Path, item: BenchmarkItem) -> tuple[list[dict[str, Any]], ItemFault | None]:
    """Read the content of an item's folder.

    Returns:
        The parts, and a fault if the item would not be judged: the file is missing, empty or not JSON, or an
            image is missing or damaged.
    """
    path = folder / item.id / CONTENT
    try:
        found = read_bytes_if_any(path, MAX_CONTENT, SettingsError, "Answer")
        if found is None:
            return [], ItemFault(item.id, f"{CONTENT} is missing")
        value = parse_json(found, SettingsError, CONTENT)
    except SettingsError as error:
        return [], ItemFault(item.id, error.message)
    content = value.get("content", []) if isinstance(value, dict) else None
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return [], ItemFault(item.id, f"{CONTENT} has no list 'content'")
    if not content:
        return [], ItemFault(item.id, f"the list 'content' in {CONTENT} is empty")
    for part in content:
        fault = _part_fault(folder / item.id, item, part)
        if fault is not None:
            return content, fault
    return content, None


def _part_fault(folder: Path, item: BenchmarkItem, part: dict[str, Any]) -> ItemFault | None:
    if part.get("type") == "image":
        name = part.get("image")
        if not isinstance(name, str) or Path(name).name != name:
            return ItemFault(item.id, f"{str(name)[:80]!r} is not a file name of an image")
        return image_fault(item, folder / name)
    if part.get("type") != "text":
        return ItemFault(item.id, f"unknown part of type {str(part.get('type'))[:40]!r}")
    return (
        None
        if isinstance(part.get("text"), str)
        else ItemFault(item.id, "the field 'text' of a part is not a string")
    )

"""Reads files of rows: a JSON list or one JSON value per line, told apart by their first character.

The file's ending is ignored. Some tools write JSON lines to `.json` and lists to `.jsonl`, and a reader that
trusts the ending reports invalid JSON for a valid file. Parquet is refused with the way to convert it. Every
row is checked before a model is loaded, and problems are reported with place, field and reason. One bad row
of a hundred thousand must neither stop a training after an hour nor disappear silently. A file that is given
to the wrong `train` command is refused as a whole, with the command that uses it.

A folder of training data (rows, their images and a report) appears only when complete, and replaces only an
earlier folder of this kind. Images are named by their digest and stored once, so that rows of several kinds
share them and the folder can be moved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from ...backend.core.errors import PictureError, SettingsError, first_fault
from ...backend.core.files.atomic import writing_folder
from ...backend.core.files.bounded_reader import (
    MAX_JSON_VALUES,
    first_characters,
    opened,
    parse_json,
    read_bytes,
)
from ...backend.core.files.image_places import ImagePlaces
from ...backend.core.pictures import MAX_BYTES, Picture

MAX_FILE = 4 * 1024**3
MAX_LINE = 16 * 1024**2
MAX_ROW_VALUES = 100_000
BYTES_A_VALUE = 16
"""Minimum bytes per value of conversations in a data file.

It limits the memory for a file that consists only of brackets, which would need a hundred times its size.
"""
IMAGES, REPORT = "images", "report.json"
BY_THE_WAY = {".DS_Store", "Thumbs.db", "desktop.ini"}
"""Files that desktops create in folders."""
PARQUET = b"PAR1"
SHOWN_PROBLEMS = 20
SFT, LABELS = "planner-sft or critic-sft", "labelled pairs"
TABLES = (".csv", ".tsv")
Row = TypeVar("Row")


@dataclass(frozen=True)
class RowProblem:
    """Why a row cannot be used: place ("row 3" counts from 0, "line 3" from 1), field and reason."""

    place: str
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}, {self.field}: {self.reason.rstrip('.')}."

    @classmethod
    def of(cls, place: str, error: ValidationError) -> RowProblem:
        """Return the first problem that a validation found."""
        fault = first_fault(error)
        return cls(place, fault.place or "row", fault.reason)


def read_values(path: Path) -> Iterator[tuple[str, Any]]:
    """Read a JSON list or JSON lines, regardless of the file's ending.

    Yields:
        ("row N", value) for each element of a list; ("line N", value or RowProblem) for each line that is not
        blank.

    Raises:
        SettingsError: The file cannot be read, is too large, is parquet, or begins as a list and is not one.
    """
    with opened(path, SettingsError, "Data file") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE:
            raise SettingsError(f"Data file {str(path)!r} is larger than 4 GiB.", "Split it.")
        if path.suffix.lower() in TABLES:
            raise _labels(path)
        start = first_characters(file)
        if start == PARQUET:
            hint = "See docs/how-to/training/make-rows.md, Convert Parquet into rows."
            raise SettingsError(f"Data file {str(path)!r} is parquet, but rows are read from JSON.", hint)
        if not start.startswith(b"["):
            yield from _lines(path, file)
            return
        values = max(MAX_JSON_VALUES, size // BYTES_A_VALUE)
        content = parse_json(file.read(MAX_FILE + 1), SettingsError, f"Data file {str(path)!r}", values)
    for number, item in enumerate(content):
        yield f"row {number}", item


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[str, Any]]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        place = f"line {number}"
        if len(line) > MAX_LINE:
            raise SettingsError(f"{path.name}, {place} is longer than 16 MiB.", "Remove this row.")
        if not line.strip():
            continue
        try:
            yield place, parse_json(line, SettingsError, "it", MAX_ROW_VALUES)
        except SettingsError as error:
            yield place, RowProblem(place, "row", error.message)


def kind_of(row: Any) -> str:
    """Return the `train` command for a row as stored in its file, or "" if it cannot be determined."""
    if not isinstance(row, dict):
        return ""
    if "edited_image_path" in row:
        return "critic-grpo"
    if "request" in row and ("checklist" in row or "reference" in row):
        return "planner-grpo"
    if "after" in row and "ok" in row:
        return LABELS
    return SFT if "messages" in row or "conversations" in row else ""


def _labels(path: Path) -> SettingsError:
    return SettingsError(
        f"{str(path)!r} has no rows: they are read from a JSON list or from JSON lines.",
        f"Make rows of labelled pairs with `interleave-thinker data import {path} --out FOLDER`.",
    )


def other_kind(path: Path, found: str, wanted: str) -> SettingsError:
    """Return the error for a file whose rows are for another `train` command."""
    if found == LABELS:
        return _labels(path)
    return SettingsError(
        f"The rows of {str(path)!r} are for train {found}, not for train {wanted}.",
        f"Run `interleave-thinker train {found} --data {path}`.",
    )


def parsed_rows(
    path: Path, parse: Callable[[str, Any], Row | RowProblem], command: str
) -> Iterator[tuple[str, Row | RowProblem]]:
    """Yield (place, row or its problem) of a file for a `train` command.

    Raises:
        SettingsError: The file cannot be read, or its rows are for another command.
    """
    for number, (place, item) in enumerate(read_values(path)):
        found = "" if number else kind_of(item)
        if found and found != command:
            raise other_kind(path, found, command)
        yield place, item if isinstance(item, RowProblem) else parse(place, item)


def usable_rows(
    path: Path,
    parsed: Iterator[tuple[str, Row | RowProblem]],
    paths_of: Callable[[Row], Mapping[str, str]],
    with_paths: Callable[[Row, Mapping[str, str]], Row],
    skip_bad: bool = False,
    images: Path | None = None,
) -> tuple[list[Row], list[RowProblem]]:
    """Open every image of parsed rows once, and return the rows that can be used.

    Image paths stay relative to the file. Images that were found in `images` by the end of their path get
    absolute ones.

    Args:
        path: The file.
        parsed: Its rows.
        paths_of: Returns a row's image paths by field.
        with_paths: Returns the row with other paths.
        skip_bad: Whether to leave out other rows instead of raising an error.
        images: Second folder in which to look for images.

    Returns:
        (rows, problems of the other rows).

    Raises:
        SettingsError: A row is invalid and `skip_bad` is false (it names place, field and reason), or none
            can be used.
    """
    read = list(parsed)
    names = {name for _, row in read if not isinstance(row, RowProblem) for name in paths_of(row).values()}
    found, damaged = _find_images(sorted(names), path.parent, images)
    rows: list[Row] = []
    problems: list[RowProblem] = []
    for place, row in read:
        if not isinstance(row, RowProblem):
            paths = paths_of(row)
            bad = next((field for field, name in paths.items() if name in damaged), None)
            if bad is None:
                rows.append(with_paths(row, {field: found[name] for field, name in paths.items()}))
                continue
            row = RowProblem(place, bad, damaged[paths[bad]])
        if not skip_bad:
            raise SettingsError(f"{path.name}, {row}", "Fix the row, or leave out such rows with --skip-bad.")
        problems.append(row)
    if not rows:
        hint = "Fix its rows; see docs/reference/file-formats.md."
        raise SettingsError(f"Data file {str(path)!r} does not contain a usable row.", hint)
    return rows, problems


def show_problems(problems: Sequence[RowProblem], good: int, log: Callable[[str], None]) -> None:
    """Log how many rows were left out, and the first problems."""
    if not problems:
        return
    log(f"left out {len(problems)} of {good + len(problems)} rows:")
    for problem in problems[:SHOWN_PROBLEMS]:
        log(f"  {problem}")
    if len(problems) > SHOWN_PROBLEMS:
        log(f"  ... and {len(problems) - SHOWN_PROBLEMS} more")


def _find_images(
    names: Sequence[str], folder: Path, root: Path | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Find the images that rows name, and decode each of them once.

    Nothing outside of `folder`, the data file's folder, and `root` is opened, since data files come from
    others.

    Returns:
        (paths by name, reasons by name of unreadable images). The path is the name itself if the image is in
        `folder`, and absolute if it was found in `root` by the end of its path.
    """
    places = ImagePlaces(folder, SettingsError, root)
    found: dict[str, str] = {}
    damaged: dict[str, str] = {}
    for name in names:
        try:
            file = places.find(name)
        except SettingsError as error:
            damaged[name] = str(error)
            continue
        if file is None:
            where = "the data file's folder" if root is None else f"the data file's folder and {str(root)!r}"
            damaged[name] = f"{name!r} was not found in {where} (set another image folder with --images)"
        else:
            own = not leads_out(name, folder) and (folder / name).exists()
            found[name] = name if own else str(file)

    def reason(name: str) -> str | None:
        try:
            Picture.open(folder / found[name])
        except PictureError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(min(32, os.cpu_count() or 1)) as pool:
        reasons = zip(found, pool.map(reason, found), strict=True)
        damaged |= {name: why for name, why in reasons if why is not None}
    return found, damaged


def leads_out(name: str, folder: Path) -> bool:
    """Return whether the image of a row is outside of `folder`: by `..`, an absolute path or a link."""
    try:
        return not (folder / name).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return True


class DataFolder:
    """The folder `path`, in which the images are next to the rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / IMAGES).mkdir()

    def keep(self, picture: Picture) -> str:
        """Store an image once, and return its path in the folder."""
        name = image_name(picture.digest)
        if not (self.path / name).exists():
            (self.path / name).write_bytes(picture.png())
        return name

    def copy(self, file: Path, digest: str, ending: str = ".png") -> str:
        """Store the file of an image with this digest once, and return its path in the folder.

        Raises:
            PictureError: The file cannot be read.
        """
        name = f"{IMAGES}/{digest}{ending}"
        if not (self.path / name).exists():
            (self.path / name).write_bytes(read_bytes(file, MAX_BYTES, PictureError, "Image"))
        return name

    def report(self, report: BaseModel) -> None:
        """Write the report."""
        text = json.dumps(report.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=False)
        (self.path / REPORT).write_text(text + "\n", encoding="utf-8")


def image_name(digest: str) -> str:
    """Return the path of an image in a data folder."""
    return f"{IMAGES}/{digest}.png"


def check_place(out: Path, files: Collection[str]) -> None:
    """Check that `out` is a new folder, or one of training data with these files.

    Raises:
        SettingsError: It contains anything else, or cannot be replaced by a folder.
    """
    if out.name in ("", "..") or out.is_symlink():
        raise SettingsError(f"{str(out)!r} cannot be replaced by a folder.", "Give a new folder as --out.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        found = {entry.name for entry in out.iterdir()} - BY_THE_WAY if out.is_dir() else set()
    except OSError as error:
        raise SettingsError(f"{str(out)!r} cannot be used: {error}.", "Give another --out.") from error
    others = found - {*files, IMAGES, REPORT}
    # A report alone does not make it a data folder: other files in it would be deleted.
    if (out.exists() and not out.is_dir()) or others or (found and REPORT not in found):
        other = f" ({min(others)!r})" if others else ""
        raise SettingsError(f"{str(out)!r} contains other files{other}.", "Give another --out.")


@contextmanager
def data_folder(out: Path, files: Collection[str]) -> Iterator[DataFolder]:
    """Yield a new folder to fill, which then replaces `out`.

    Raises:
        SettingsError: `out` contains other files than those of training data, or cannot be written.
    """
    check_place(out, files)
    with writing_folder(out, SettingsError, "Data folder") as temporary:
        yield DataFolder(temporary)

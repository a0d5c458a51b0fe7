"""Reads files of rows: a JSON list or one JSON value per line, told apart by their first character.

The file's ending is ignored. Some tools write JSON lines to `.json` and lists to `.jsonl`, and a reader that
trusts the ending reports invalid JSON for a valid file. Parquet is refused with the way to convert it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from ....backend.errors import SettingsError
from ....backend.files.bounded_reader import MAX_JSON_VALUES, first_characters, opened, parse_json

MAX_FILE = 4 * 1024**3
MAX_LINE = 16 * 1024**2
MAX_ROW_VALUES = 100_000
BYTES_A_VALUE = 16
"""Minimum bytes per value of conversations in a data file.

It limits the memory for a file that consists only of brackets, which would need a hundred times its size.
"""
PARQUET = b"PAR1"


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
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "row"
        return cls(place, field, first["msg"].removeprefix("Value error, "))


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
            raise SettingsError(
                f"Data file {str(path)!r} is larger than {MAX_FILE} bytes.", "Split it into several files."
            )
        start = first_characters(file)
        if start == PARQUET:
            raise SettingsError(
                f"Data file {str(path)!r} is parquet, but rows are read from JSON.",
                "Write its rows as JSON and its images as files: docs/how-to/training/pack-and-share.md, "
                "Convert Parquet into rows.",
            )
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
            raise SettingsError(
                f"{path.name}, {place} is longer than {MAX_LINE} bytes.", "Shorten or remove this row."
            )
        if not line.strip():
            continue
        try:
            yield place, parse_json(line, SettingsError, "it", MAX_ROW_VALUES)
        except SettingsError as error:
            yield place, RowProblem(place, "row", error.message)

"""Reads rows from data files of others: JSON, JSON lines, Parquet and torch files of plain values."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from ...backend.core.errors import SettingsError
from ...backend.core.files.bounded_reader import first_characters, opened, read_json
from ...backend.core.machine.libraries import require
from ...training.rows.values import RowProblem, read_values

TORCH_FILES = (".pt", ".pth")
DATA_FILES = (".json", ".jsonl", ".parquet")
MAX_FILE = 4 * 1024**3
MAX_JSON = 512 * 1024 * 1024
MAX_JSON_VALUES = 50_000_000
MAX_ROWS = 1_000_000


def files_of(path: Path) -> list[Path]:
    """Return the data files of a path: itself, or those in the folder, sorted.

    Raises:
        SettingsError: The folder has no data files.
    """
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.rglob("*") if one.suffix.lower() in DATA_FILES and one.is_file())
    if not found:
        kinds = ", ".join(DATA_FILES)
        raise SettingsError(f"Folder {str(path)!r} does not contain a {kinds} file.", "Give a file of rows.")
    return found


def rows_of(path: Path, columns: Collection[str]) -> Iterator[Any]:
    """Yield the rows of a file. Of a Parquet file only these `columns` are read.

    Raises:
        SettingsError: The file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix in TORCH_FILES:
        rows = _torch(path)
    elif suffix == ".parquet":
        rows = _parquet(path, columns)
    else:
        rows = _json(path)
    yield from islice(rows, MAX_ROWS)


def _json(path: Path) -> Iterator[Any]:
    with opened(path, SettingsError, "File") as file:
        is_object = first_characters(file).startswith(b"{") and path.suffix.lower() == ".json"
    if is_object:
        try:
            value = read_json(path, SettingsError, "File", MAX_JSON, MAX_JSON_VALUES)
        except SettingsError:
            pass  # lines of objects
        else:
            rows = value.get("data", value.get("rows", list(value.values())))
            yield from rows if isinstance(rows, list) else ()
            return
    for _, row in read_values(path):
        if isinstance(row, RowProblem):
            raise SettingsError(f"File {str(path)!r}, {row}", "Fix the row, or remove it.")
        yield row


def _torch(path: Path) -> Iterator[Any]:
    """Yield the items of a list that torch wrote; its reader refuses all but plain values and tensors."""
    require("torch")
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
        raise SettingsError("Files of torch are read with torch 2.6 or newer.", "Update torch.")
    with opened(path, SettingsError, "File") as file:
        too_large = os.fstat(file.fileno()).st_size > MAX_FILE
        try:
            too_large = too_large or _unpacked(file) > MAX_FILE
            items = () if too_large else torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            reason = f"File {str(path)!r} is damaged or has more than plain values ({type(error).__name__})."
            raise SettingsError(reason, "If you trust it, load it and save its list as JSON.") from error
    if too_large or not isinstance(items, (list, tuple, dict)):
        raise SettingsError(f"File {str(path)!r} is not a list of up to 4 GiB.", "Give the training file.")
    yield from items.values() if isinstance(items, dict) else items


def _unpacked(file: IO[bytes]) -> int:
    """Return the bytes that the entries of a zip archive have unpacked, as torch reads them; 0 for others."""
    total = 0
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
    file.seek(0)
    return total


def _parquet(path: Path, columns: Collection[str]) -> Iterator[Any]:
    require("pyarrow")
    import pyarrow
    import pyarrow.parquet

    with opened(path, SettingsError, "File") as file:
        try:
            table = pyarrow.parquet.ParquetFile(file)
            names = [name for name in table.schema_arrow.names if name in columns]
            for batch in table.iter_batches(batch_size=64, columns=names):
                yield from batch.to_pylist()
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            reason = f"File {str(path)!r} cannot be read as Parquet: {str(error)[:200]}."
            raise SettingsError(reason, "Give a complete file.") from error

"""Writes rows as shards: Parquet files with embedded images, or tar files.

A Parquet shard has the form that `datasets` itself writes (with its features), so it can be opened by path
and offline. The row as JSON is stored next to the columns, for exact comparison. A tar shard has no dates and
owners: the same rows give the same bytes.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from ....backend.errors import SettingsError
from ....backend.machine.libraries import require
from .row_files import PackedRow, RowFile

Form = Literal["parquet", "hf", "webdataset", "published"]
SHARD_BYTES = 512 * 1024 * 1024
TAR_ROWS = 1000


def write_parquet(
    file: RowFile, folder: Path, rows: Iterable[PackedRow] | None = None, shard_bytes: int = SHARD_BYTES
) -> list[Path]:
    """Write the rows of a file as `NAME-SPLIT-00000.parquet` and following.

    Args:
        file: The file.
        folder: Folder of the shards.
        rows: Rows to write. Default: all rows of the file.
        shard_bytes: Maximum size of a shard.

    Returns:
        The paths of the shards.

    Raises:
        SettingsError: A value does not have the type of its column.
    """
    require("datasets")
    import pyarrow
    from pyarrow import parquet

    schema = _features(file.is_rl).arrow_schema
    paths = []
    for shard in _cut(file.rows() if rows is None else rows, shard_bytes, None):
        path = folder / f"{file.name}-{file.split}-{len(paths):05}.parquet"
        columns = [_columns(row, file.is_rl) for row in shard]
        try:
            table = pyarrow.Table.from_pylist(columns, schema=schema)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SettingsError(
                f"A row of {file.path.name} has a value of the wrong type: {_short(error)}.", "Fix the row."
            ) from error
        parquet.write_table(table, path, row_group_size=100)
        paths.append(path)
    return paths


def write_tars(
    file: RowFile, folder: Path, rows: Iterable[PackedRow] | None = None, rows_a_shard: int = TAR_ROWS
) -> list[Path]:
    """Write the rows of a file as `NAME-SPLIT-00000.tar` and following, as KEY.json, KEY.0.png, KEY.1.png.

    Args:
        file: The file.
        folder: Folder of the shards.
        rows: Rows to write. Default: all rows of the file.
        rows_a_shard: Maximum number of rows per shard.

    Returns:
        The paths of the shards.
    """
    paths, number = [], 0
    for shard in _cut(file.rows() if rows is None else rows, None, rows_a_shard):
        path = folder / f"{file.name}-{file.split}-{len(paths):05}.tar"
        with tarfile.open(path, "w") as tar:
            for row in shard:
                key = f"{number:09}"
                _add(tar, f"{key}.json", _encoded(file, row))
                for place, image in enumerate(row.images):
                    _add(tar, f"{key}.{place}.png", image)
                number += 1
        paths.append(path)
    return paths


def _encoded(file: RowFile, row: PackedRow) -> bytes:
    try:
        return row.line().encode()
    except UnicodeEncodeError as error:
        raise SettingsError(
            f"{file.path.name}, row {row.number} contains an invalid character (a lone surrogate).",
            "Remove the character.",
        ) from error


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _cut(
    rows: Iterable[PackedRow], most_bytes: int | None, most_rows: int | None
) -> Iterator[list[PackedRow]]:
    """Yield the rows in shards of at most this many bytes and rows, with at least one row each."""
    shard: list[PackedRow] = []
    size = 0
    for row in rows:
        more = sum(map(len, row.images)) + len(row.line())
        full = (most_bytes is not None and size + more > most_bytes) or len(shard) == most_rows
        if shard and full:
            yield shard
            shard, size = [], 0
        shard.append(row)
        size += more
    if shard:
        yield shard


def _features(is_rl: bool) -> Any:
    from datasets import Features, Image, List, Value

    shared = {"images": List(Image()), "row": Value("string")}
    if is_rl:
        verdict = {"success": Value("bool"), "semantics": Value("float64"), "quality": Value("float64")}
        texts = {"origin_prompt": Value("string"), "rewritten_prompt": Value("string")}
        return Features({**texts, "evaluation": verdict, **shared})
    turn = {"role": Value("string"), "content": Value("string")}
    return Features({"messages": List(turn), **shared})


def _columns(packed: PackedRow, is_rl: bool) -> dict[str, Any]:
    row = packed.row
    images = [{"bytes": image, "path": None} for image in packed.images]
    shared = {"images": images, "row": packed.line()}
    try:
        if is_rl:
            said = row["evaluation"]
            names = ("success", "semantics", "quality")
            texts = {name: row.get(name) for name in ("origin_prompt", "rewritten_prompt")}
            return {**texts, "evaluation": {name: said[name] for name in names}, **shared}
        turns = [{name: turn[name] for name in ("role", "content")} for turn in row["messages"]]
        return {"messages": turns, **shared}
    except (KeyError, TypeError) as error:
        raise SettingsError(f"A row lacks {error}: {json.dumps(row)[:200]}", "Fix the row.") from error

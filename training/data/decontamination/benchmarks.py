"""Reads the files of known benchmarks, and any file of rows or lines, as items for the guard's index.

Readers tolerate additional fields but require the few that matter: a file in which no row has them is
refused, since an empty guard would let everything pass. Rows without them are counted. Only the ids of CoMM
are stored; other ids are numbers that any file may have.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ....backend.errors import PictureError, SettingsError
from ....backend.files.bounded_reader import first_characters, opened, parse_json
from ....backend.pictures import Picture
from ..pickled import ENDINGS, pickled_items
from .items import IndexedItem

MAX_FILE_BYTES = 512 * 1024 * 1024
MAX_ROWS = 1_000_000
MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_TEXT = 100_000
MAX_IMAGES = 64
FILE = "file"


@dataclass(frozen=True)
class RowFields:
    """Names of the fields of a row that contain texts, titles, ids and images."""

    texts: tuple[str, ...]
    titles: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


KINDS = {
    "ueval": RowFields(texts=("prompt",), images=("image", "images")),
    "wise": RowFields(texts=("Prompt",)),
    "rise": RowFields(texts=("instruction",), images=("image", "reference_img", "reference")),
    "specv": RowFields(texts=("question",), images=("question_img",)),
    "comm": RowFields(texts=(), titles=("title",), ids=("data_id",)),
    FILE: RowFields(
        texts=("user_input", "prompt", "text", "question", "instruction", "Prompt"),
        images=("image", "images", "user_input_image"),
    ),
}
"""Fields of the benchmarks, by the name in `data guard add`."""


@dataclass
class ItemsRead:
    """Counts of a file: items, rows without the expected fields, and missing images."""

    items: int = 0
    without_fields: int = 0
    missing_images: list[str] = field(default_factory=list)


def files_of(path: Path) -> list[Path]:
    """Return the data files of a path: itself, or those in the folder, sorted.

    Raises:
        SettingsError: The folder has no data files.
    """
    if not path.is_dir():
        return [path]
    kinds = (".json", ".jsonl", ".parquet")
    found = sorted(one for one in path.rglob("*") if one.suffix.lower() in kinds and one.is_file())
    if not found:
        raise SettingsError(
            f"Folder {str(path)!r} does not contain a {', '.join(kinds)} file.",
            "Give a folder or file of rows.",
        )
    return found


def digest_of(path: Path) -> str:
    """Return the digest of a file's content.

    Raises:
        SettingsError: The file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    with opened(path, SettingsError, "Benchmark") as file:
        while part := file.read(1024 * 1024):
            digest.update(part)
    return digest.hexdigest()


def items_of(kind: str, path: Path, read: ItemsRead, images: Path | None = None) -> Iterator[IndexedItem]:
    """Yield the items of a file; `read` is updated meanwhile.

    Images are looked for next to the file, in the benchmark's folders above it, and in `images`.

    Raises:
        SettingsError: The file cannot be read, or none of its rows has the expected fields.
    """
    fields = KINDS[kind]
    for row in rows_of(path):
        item = _item(row, fields, path, images, read) if isinstance(row, dict) else None
        if isinstance(row, str) and kind == FILE and row.strip():
            item = IndexedItem(texts=(row[:MAX_TEXT],))
        if item is None:
            read.without_fields += 1
            continue
        read.items += 1
        yield item
    if not read.items:
        names = ", ".join(fields.texts or fields.titles)
        raise SettingsError(
            f"None of the rows in {str(path)!r} has a field of a {kind} file ({names}).",
            "Check that this is the right file.",
        )


def rows_of(path: Path, columns: Collection[str] = ()) -> Iterator[Any]:
    """Yield the rows of a JSON, JSON lines, parquet, pickle (of plain values) or text file (one per line).

    Of a parquet file these `columns` are read, or those that the guard uses.

    Raises:
        SettingsError: The file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix in ENDINGS:
        yield from islice(pickled_items(path), MAX_ROWS)
        return
    if suffix == ".parquet":
        yield from _parquet(path, columns)
    elif suffix in (".json", ".jsonl"):
        yield from _lines(path, is_json=True) if _is_of_lines(path) else _json_list(path)
    else:
        yield from _lines(path, is_json=False)


def _item(
    row: dict[str, Any], fields: RowFields, path: Path, images: Path | None, read: ItemsRead
) -> IndexedItem | None:
    texts = [text for name in fields.texts if (text := _text(row.get(name)))]
    titles = [text for name in fields.titles if (text := _text(row.get(name)))]
    texts += _step_texts(row.get("step_info")) if fields.titles else []
    if not texts and not titles:
        return None
    ids = [str(row[name])[:200] for name in fields.ids if isinstance(row.get(name), (str, int))]
    given = [one for name in fields.images for one in _listed(row.get(name))]
    given += _step_images(row.get("step_info")) if fields.titles else []
    pictures = [
        picture for one in given[:MAX_IMAGES] if (picture := _picture(one, path, images, read)) is not None
    ]
    return IndexedItem(tuple(texts), tuple(titles), tuple(ids), tuple(pictures))


def _text(value: Any) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _parts(steps: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the parts of one kind from CoMM's steps, which are lists of parts."""
    for step in _listed(steps):
        for part in _listed(step):
            if isinstance(part, dict) and part.get("type") == kind:
                yield part


def _step_texts(steps: Any) -> list[str]:
    return [text for part in _parts(steps, "text") if (text := _text(part.get("content")))]


def _step_images(steps: Any) -> list[Any]:
    return [part.get("image_path") for part in _parts(steps, "image") if part.get("image_path")]


def _picture(given: Any, path: Path, images: Path | None, read: ItemsRead) -> Picture | None:
    """Return the image of a row (a path, or bytes as `datasets` stores them), or None if it is missing."""
    try:
        if isinstance(given, dict) and isinstance(given.get("bytes"), bytes):
            return Picture.from_bytes(given["bytes"])
        name = given.get("path") if isinstance(given, dict) else given
        if not isinstance(name, str) or not name or len(name) > 1000 or "\0" in name:
            return None
        relative = Path(name)
        if relative.is_absolute() or ".." in relative.parts:
            relative = Path(relative.name)
        folders = [images] if images else [path.parent, *path.parent.parents[:3]]
        for folder in folders:
            for at in (folder / relative, folder / "images" / relative, folder / relative.name):
                if at.is_file():
                    return Picture.open(at)
        read.missing_images.append(name)
    except (PictureError, OSError) as error:
        read.missing_images.append(str(error)[:200])
    return None


def _json_list(path: Path) -> Iterator[Any]:
    with opened(path, SettingsError, "File") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(
            f"File {str(path)!r} is larger than {MAX_FILE_BYTES} bytes.", "Convert it to JSON lines."
        )
    value = parse_json(content, SettingsError, f"File {str(path)!r}", values=50_000_000)
    if isinstance(value, dict):
        value = value.get("data", value.get("rows", list(value.values())))
    if not isinstance(value, list):
        raise SettingsError(f"File {str(path)!r} is not a list of rows.", "Give a JSON list, or JSON lines.")
    yield from value[:MAX_ROWS]


def _is_of_lines(path: Path) -> bool:
    """Return whether a JSON file has one value per line: its first line is an object, followed by more."""
    with opened(path, SettingsError, "File") as file:
        if not first_characters(file).startswith(b"{"):
            return False
        line = file.readline(MAX_LINE_BYTES)
        while line and not line.strip(codecs.BOM_UTF8).strip():
            line = file.readline(MAX_LINE_BYTES)
        more = bool(file.read(1))
    try:
        parse_json(line, SettingsError, "it")
    except SettingsError:
        return path.suffix.lower() == ".jsonl"
    return more or path.suffix.lower() == ".jsonl"


def _lines(path: Path, is_json: bool) -> Iterator[Any]:
    with opened(path, SettingsError, "File") as file:
        for number in range(1, MAX_ROWS + 1):
            line = file.readline(MAX_LINE_BYTES + 1)
            if not line:
                return
            if len(line) > MAX_LINE_BYTES:
                raise SettingsError(
                    f"File {str(path)!r}, line {number} is longer than {MAX_LINE_BYTES} bytes.",
                    "Shorten or remove this row.",
                )
            if not line.strip():
                continue
            where = f"File {str(path)!r}, line {number}"
            if is_json:
                yield parse_json(line, SettingsError, where)
            else:
                try:
                    yield line.decode("utf-8-sig").strip()
                except UnicodeDecodeError as error:
                    raise SettingsError(
                        f"{where} is not UTF-8 text.", "Convert the file to UTF-8."
                    ) from error


def _parquet(path: Path, given: Collection[str]) -> Iterator[Any]:
    from ....backend.machine.libraries import require

    require("pyarrow")
    import pyarrow
    import pyarrow.parquet

    known = {name for fields in KINDS.values() for name in (*fields.texts, *fields.titles, *fields.ids)}
    known |= {name for fields in KINDS.values() for name in fields.images} | {"step_info"}
    wanted = set(given) or known
    with opened(path, SettingsError, "File") as file:
        try:
            table = pyarrow.parquet.ParquetFile(file)
            columns = [name for name in table.schema_arrow.names if name in wanted]
            for batch in table.iter_batches(batch_size=64, columns=columns):
                yield from batch.to_pylist()
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            raise SettingsError(
                f"File {str(path)!r} cannot be read as parquet: {str(error)[:200]}.", "Give a complete file."
            ) from error

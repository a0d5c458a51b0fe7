"""The one way in which files from elsewhere are read: regular files only, never more than a stated number of
bytes.

Decision: the file is opened without waiting and asked what it is before a byte is read. A pipe would keep its
reader for ever, a device never ends, and a file with holes costs its sender nothing and its reader all of the
memory. JSON is refused by the number of its values before it is parsed, since a value of two bytes becomes an
object of a hundred.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import InterleaveError

MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_JSON_VALUES = 2_000_000
"""Most values in one JSON text, counted by its brackets and commas (also those inside texts): about 200 MB of
objects."""
MAX_KEYS = 100_000
"""Most keys of one JSON object: each that a model does not know is a fault of its own."""
OPENING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def read_bytes(path: str | Path, limit: int, kind: type[InterleaveError], what: str = "File") -> bytes:
    """The content of a regular file of at most `limit` bytes; raises `kind` naming the path, also if there is
    none."""
    content = read_bytes_if_any(path, limit, kind, what)
    if content is None:
        raise kind(f"{what} {str(path)!r} cannot be read (there is no such file).")
    return content


def read_bytes_if_any(
    path: str | Path, limit: int, kind: type[InterleaveError], what: str = "File"
) -> bytes | None:
    """As `read_bytes`, but None where nothing lies at the path."""
    shown = f"{what} {str(path)!r}"
    file = _opened_if_any(path, kind, shown)
    if file is None:
        return None
    try:
        with file:
            size = os.fstat(file.fileno()).st_size
            content = b""
            if size <= limit:
                # No more room is asked for than the file has: a limit may be gigabytes.
                content = file.read(size + 1)
            if size < len(content) <= limit:
                content += file.read(limit + 1 - len(content))
    except OSError as error:
        raise kind(f"{shown} cannot be read ({error.strerror or error}).") from error
    if max(size, len(content)) > limit:
        raise kind(f"{shown} is larger than {limit} bytes, the most that is read.")
    return content


@contextmanager
def opened(path: str | Path, kind: type[InterleaveError], what: str = "File") -> Iterator[BinaryIO]:
    """A regular file to read in parts, for headers, samples and lines; raises `kind` naming the path, also
    for what goes wrong while it is read."""
    shown = f"{what} {str(path)!r}"
    file = _opened_if_any(path, kind, shown)
    if file is None:
        raise kind(f"{shown} cannot be read (there is no such file).")
    try:
        with file:
            yield file
    except OSError as error:
        raise kind(f"{shown} cannot be read ({error.strerror or error}).") from error


def first_characters(file: BinaryIO, count: int = 4) -> bytes:
    """Up to `count` bytes of an opened file after its byte order mark and blanks; the file is left at its
    beginning."""
    found = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8).lstrip()
    while len(found) < count and (more := file.read(4096)):
        found = (found + more).lstrip()
    file.seek(0)
    return found[:count]


def _opened_if_any(path: str | Path, kind: type[InterleaveError], shown: str) -> BinaryIO | None:
    try:
        descriptor = os.open(path, OPENING)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise kind(f"{shown} has a name that no file can have ({error}).") from error
    except OSError as error:
        # A socket, or a pipe that nobody reads, says so when it is opened.
        if error.errno in (errno.ENXIO, errno.EISDIR):
            raise kind(f"{shown} is not a regular file.") from error
        raise kind(f"{shown} cannot be read ({error.strerror or error}).") from error
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError as error:
        os.close(descriptor)
        raise kind(f"{shown} cannot be read ({error.strerror or error}).") from error
    if not regular:
        os.close(descriptor)
        raise kind(f"{shown} is not a regular file.")
    return os.fdopen(descriptor, "rb")


def read_text(path: str | Path, limit: int, kind: type[InterleaveError], what: str = "File") -> str:
    """The content of a UTF-8 file (a byte order mark is left out); raises `kind` naming the path."""
    return _decoded(read_bytes(path, limit, kind, what), kind, f"{what} {str(path)!r}")


def read_json(
    path: str | Path,
    kind: type[InterleaveError],
    what: str = "File",
    limit: int = MAX_JSON_BYTES,
    values: int | None = None,
) -> Any:
    """The value in a JSON file; raises `kind` naming the path for what `parse_json` refuses."""
    return parse_json(read_bytes(path, limit, kind, what), kind, f"{what} {str(path)!r}", values)


def check_values(text: str, kind: type[InterleaveError], where: str, values: int | None = None) -> None:
    """Raise `kind` if a JSON text holds more than that many values, without parsing it (for who leaves that
    to a library)."""
    most = MAX_JSON_VALUES if values is None else values
    if text.count("{") + text.count("[") + text.count(",") > most:
        raise kind(f"{where} holds more than {most} values, the most that are read.")


def parse_json(
    content: bytes | str, kind: type[InterleaveError], where: str, values: int | None = None
) -> Any:
    """The value of a JSON text; raises `kind` if it is none, is nested too deep, holds more than that many
    `values` (MAX_JSON_VALUES) or MAX_KEYS keys in one object, or names a key of one object twice (readers
    differ in which of the two they take)."""
    text = _decoded(content, kind, where) if isinstance(content, bytes) else content.removeprefix("\ufeff")
    check_values(text, kind, where, values)
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except RecursionError as error:
        raise kind(f"{where} is nested too deep.") from error
    except ValueError as error:
        raise kind(f"{where} is not JSON ({error}).") from error


def _decoded(content: bytes, kind: type[InterleaveError], where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise kind(f"{where} is not UTF-8 text ({error.reason} at byte {error.start}).") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise ValueError(f"an object has more than {MAX_KEYS} keys")
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"the key {twice[:80]!r} stands twice in one object")
    return found

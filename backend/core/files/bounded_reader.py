"""Reads untrusted files: regular files only, and at most a given number of bytes.

A file is opened without blocking and its type is checked before a byte is read. A pipe would block its reader
forever, a device never ends, and a sparse file costs its sender nothing but fills its reader's RAM. JSON with
too many values is rejected before it is parsed, since a value of two bytes becomes an object of a hundred.
YAML has a limit on aliases, because a few lines of nested aliases expand to gigabytes.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..errors import InterleaveError, SettingsError

MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_JSON_VALUES = 2_000_000
"""Maximum number of values in a JSON text, estimated from brackets and commas: about 200 MB of objects."""
MAX_KEYS = 100_000
"""Maximum number of keys in a JSON object, because every unknown key is a validation error of its own."""
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the first bytes of a file; the mark of UTF-32 begins with that of UTF-16."""
NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")
"""Control characters that a file has if its encoding was guessed wrong, or if it is not text."""
SAVE_AS_TEXT = "Save it as UTF-8 text."
OPENING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def read_bytes(path: str | Path, limit: int, kind: type[InterleaveError], what: str = "File") -> bytes:
    """Return the content of a regular file.

    Args:
        path: Path of the file.
        limit: Maximum size in bytes.
        kind: Class of errors.
        what: Noun for error messages.

    Raises:
        InterleaveError: Of class `kind`, naming the path: the file is missing, too large or unreadable.
    """
    content = read_bytes_if_any(path, limit, kind, what)
    if content is None:
        raise kind(f"{what} {str(path)!r} cannot be read (no such file).")
    return content


def read_bytes_if_any(
    path: str | Path, limit: int, kind: type[InterleaveError], what: str = "File"
) -> bytes | None:
    """Return the content of a regular file as `read_bytes` does, or None if nothing exists at the path.

    Raises:
        InterleaveError: Of class `kind`, naming the path.
    """
    shown = f"{what} {str(path)!r}"
    file = _opened_if_any(path, kind, shown)
    if file is None:
        return None
    try:
        with file:
            size = os.fstat(file.fileno()).st_size
            content = b""
            if size <= limit:
                # Allocate only the file's size, since the limit may be gigabytes.
                content = file.read(size + 1)
            if size < len(content) <= limit:
                content += file.read(limit + 1 - len(content))
    except OSError as error:
        raise kind(f"{shown} cannot be read ({error.strerror or error}).") from error
    if max(size, len(content)) > limit:
        raise kind(f"{shown} is larger than {limit} bytes, the maximum.")
    return content


@contextmanager
def opened(path: str | Path, kind: type[InterleaveError], what: str = "File") -> Iterator[BinaryIO]:
    """Open a regular file to read parts of it, such as headers, samples and lines.

    Raises:
        InterleaveError: Of class `kind`, naming the path, also for errors inside the block.
    """
    shown = f"{what} {str(path)!r}"
    file = _opened_if_any(path, kind, shown)
    if file is None:
        raise kind(f"{shown} cannot be read (no such file).")
    try:
        with file:
            yield file
    except OSError as error:
        raise kind(f"{shown} cannot be read ({error.strerror or error}).") from error


def first_characters(file: BinaryIO, count: int = 4) -> bytes:
    """Return up to `count` bytes after a file's byte order mark and blanks, and rewind the file."""
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
        raise kind(f"{shown} has an invalid name ({error}).") from error
    except OSError as error:
        # A socket, or a pipe without a reader, fails to open with this error.
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
    """Return the content of a UTF-8 file without its byte order mark.

    Raises:
        InterleaveError: Of class `kind`, naming the path.
    """
    return _decoded(read_bytes(path, limit, kind, what), kind, f"{what} {str(path)!r}")


class ImportedText(NamedTuple):
    """A text that another program wrote. `notice` says which encoding was taken, if it is not UTF-8."""

    text: str
    notice: str


def read_import(path: str | Path, limit: int, kind: type[InterleaveError], what: str) -> ImportedText:
    """Return a text that people export from other programs, without its byte order mark.

    The encoding is that of the byte order mark. Without one, it is UTF-16 if many bytes are zero, all of them
    first or all of them second bytes; otherwise UTF-8; otherwise Windows-1252, as Excel writes CSV.

    Raises:
        InterleaveError: Of class `kind`, naming the path.
    """
    content = read_bytes(path, limit, kind, what)
    encoding = _encoding(content)
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise kind(f"{what} {str(path)!r} is not text ({error.reason}).", SAVE_AS_TEXT) from error
    if encoding.startswith("utf-8"):
        return ImportedText(text, "")
    if NO_TEXT.search(text):
        raise kind(f"{what} {str(path)!r} is not text (control characters).", SAVE_AS_TEXT)
    name = "Windows-1252" if encoding == "cp1252" else "UTF-16" if "16" in encoding else "UTF-32"
    return ImportedText(text, f"The file is read as {name} text. If letters are wrong, save it as UTF-8.")


def _encoding(content: bytes) -> str:
    for mark, name in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return name
    first, second = content[::2].count(0), content[1::2].count(0)
    if (first + second) * 4 >= max(len(content), 1) and not (first and second):
        return "utf-16-be" if first else "utf-16-le"
    try:
        content.decode()
    except UnicodeDecodeError:
        if bool(first) != bool(second):
            return "utf-16-be" if first else "utf-16-le"
        return "cp1252"
    return "utf-8"


def read_json(
    path: str | Path,
    kind: type[InterleaveError],
    what: str = "File",
    limit: int = MAX_JSON_BYTES,
    values: int | None = None,
) -> Any:
    """Return the value in a JSON file.

    Raises:
        InterleaveError: Of class `kind`, naming the path, as for `parse_json`.
    """
    return parse_json(read_bytes(path, limit, kind, what), kind, f"{what} {str(path)!r}", values)


def check_values(text: str, kind: type[InterleaveError], where: str, values: int | None = None) -> None:
    """Check the number of values in a JSON text without parsing it, for texts that a library parses.

    Raises:
        InterleaveError: Of class `kind`, if there are more than `values` (default: MAX_JSON_VALUES).
    """
    most = MAX_JSON_VALUES if values is None else values
    if text.count("{") + text.count("[") + text.count(",") > most:
        raise kind(f"{where} contains more than {most} values.")


def parse_json(
    content: bytes | str, kind: type[InterleaveError], where: str, values: int | None = None
) -> Any:
    """Return the value of a JSON text.

    Args:
        content: JSON text, or its UTF-8 bytes.
        kind: Class of errors.
        where: Name of the text for error messages.
        values: Maximum number of values. Default: MAX_JSON_VALUES.

    Raises:
        InterleaveError: Of class `kind`: the text is invalid or nested too deep, has too many values or keys,
            or an object has the same key twice (parsers differ in which one they use).
    """
    text = _decoded(content, kind, where) if isinstance(content, bytes) else content.removeprefix("\ufeff")
    check_values(text, kind, where, values)
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except RecursionError as error:
        raise kind(f"{where} is nested too deeply.") from error
    except ValueError as error:
        raise kind(f"{where} is not JSON ({error}).") from error


def _decoded(content: bytes, kind: type[InterleaveError], where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise kind(
            f"{where} is not UTF-8 text ({error.reason} at byte {error.start}).", SAVE_AS_TEXT
        ) from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise ValueError(f"an object has more than {MAX_KEYS} keys")
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"the key {twice[:80]!r} occurs twice in one object")
    return found


MAX_REPEATED = 8


def bounded_loader(base: Any) -> Any:
    """Return a loader class derived from `base` that limits aliases and accepts no key twice.

    Args:
        base: Such as yaml.SafeLoader or yaml.BaseLoader.

    Returns:
        The class. It raises yaml.YAMLError for more than MAX_REPEATED aliases (`*`).
    """
    from yaml import AliasEvent, YAMLError

    class Loader(base):
        repeated = 0

        def compose_node(self, parent: Any, index: int) -> Any:
            if self.check_event(AliasEvent):
                self.repeated += 1
                if self.repeated > MAX_REPEATED:
                    raise YAMLError(f"more than {MAX_REPEATED} aliases (*)")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value if isinstance(key.value, str) and key.value != "<<"]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise YAMLError(f"the key {twice[0][:100]!r} is there twice")
            return super().construct_mapping(node, deep)

    return Loader


def load_yaml(text: str | bytes, loader: Any, what: str, name: str | Path) -> Any:
    """Return the value of a YAML text.

    Args:
        text: YAML text.
        loader: Loader class, see `bounded_loader`.
        what: Noun for error messages.
        name: Name of the text for error messages.

    Raises:
        SettingsError: The text is invalid.
    """
    import yaml

    try:
        return yaml.load(text, loader)
    # A tagged scalar without a value of its kind, such as `!!int ""`, is not a YAMLError.
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SettingsError(f"{what} {str(name)!r} is not valid YAML ({reason}).") from error

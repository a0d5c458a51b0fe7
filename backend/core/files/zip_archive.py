"""Reads untrusted zip archives, and writes zip archives.

An archive is checked completely before anything in it is unpacked. Its table of contents is parsed here and
not by a library, because libraries interpret malformed tables differently. Every entry must be a plain file
of an expected name and size. The table must match the headers before the data. The entries must follow each
other without gaps, overlaps or trailing data. Entries are decompressed to the declared size at most. Reading
never writes files. Archives written here are stored, not deflated (they are mostly PNG), so the same content
gives the same file on every machine. Structures are those of APPNOTE.TXT 6.3.9.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import InterleaveError
from .atomic import writing
from .bounded_reader import opened

END = struct.Struct("<4s4H2LH")
"""End of the table of contents (4.3.16): mark, disks, entries, size, offset, length of the comment."""
ENTRY = struct.Struct("<4s6H3L5H2L")
"""An entry of the table (4.3.12)."""
LOCAL = struct.Struct("<4s5H3L2H")
"""The header before an entry's data (4.3.7)."""
EXTRA = struct.Struct("<2H")
END_MARK, ENTRY_MARK, LOCAL_MARK = b"PK\5\6", b"PK\1\2", b"PK\3\4"
STORED, DEFLATED = 0, 8
ENCRYPTED, UTF8, DEFLATE_LEVEL = 0x1, 0x800, 0x6
"""Supported bits of an entry's flags (4.4.4). Others are rejected."""
ZIP64, OTHER_NAME = 0x1, 0x7075
"""Extra fields that change an entry's sizes or its name."""
ALL_16, ALL_32 = 0xFFFF, 0xFFFFFFFF
UNIX = 3
FILE_TYPE, REGULAR = 0o170000, 0o100000
MAX_ENTRY = 1024
"""Maximum bytes of a table entry, including names and extra fields."""


@dataclass(frozen=True)
class ZipBounds:
    """Limits for an archive.

    Attributes:
        archive: Maximum size of the file in bytes.
        entries: Maximum number of entries.
        total: Maximum size of all entries together, unpacked, in bytes.
        most: Returns the maximum size of an entry by its name, or None for a name that is not allowed.
    """

    archive: int
    entries: int
    total: int
    most: Callable[[str], int | None]


@dataclass(frozen=True)
class ZipEntry:
    """A file in an archive.

    Attributes:
        name: Name of the entry.
        start: Offset of its header.
        method: Compression method.
        flags: Flags of the entry.
        packed: Compressed size in bytes.
        size: Size in bytes.
        checksum: CRC-32 of its content.
    """

    name: str
    start: int
    method: int
    flags: int
    packed: int
    size: int
    checksum: int
    data: int = 0
    """Offset of its data."""


class ZipReader:
    """An archive whose table of contents was checked. Entries are read one at a time.

    Errors have the class `kind` and name the archive.
    """

    def __init__(
        self, path: str | Path, bounds: ZipBounds, kind: type[InterleaveError], what: str = "Archive"
    ) -> None:
        self.path = Path(path)
        self._kind, self._what = kind, what
        with opened(self.path, kind, what) as file:
            self.entries = self._checked(file, bounds)

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the content of an entry, or None if the name does not exist.

        Args:
            name: Name of the entry.
            limit: Maximum size in bytes.

        Raises:
            InterleaveError: Of class `kind`: the entry is larger, or differs from the table of contents.
        """
        entry = self.entries.get(name)
        if entry is None:
            return None
        if entry.size > limit:
            raise self._fault(f"{name!r} is larger than {limit} bytes, the maximum.")
        with opened(self.path, self._kind, self._what) as file:
            file.seek(entry.data)
            packed = file.read(entry.packed)
        content = packed if entry.method == STORED else self._inflated(entry, packed)
        if len(content) != entry.size or zlib.crc32(content) != entry.checksum:
            raise self._fault(f"{name!r} is damaged: it does not match the table of contents.")
        return content

    def _inflated(self, entry: ZipEntry, packed: bytes) -> bytes:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = inflater.decompress(packed, entry.size + 1)
        except zlib.error as error:
            raise self._fault(f"{entry.name!r} cannot be decompressed ({error}).") from error
        if not inflater.eof or inflater.unused_data or len(content) > entry.size:
            raise self._fault(f"{entry.name!r} does not decompress to the size in the table of contents.")
        return content

    def _checked(self, file: BinaryIO, bounds: ZipBounds) -> dict[str, ZipEntry]:
        size = os.fstat(file.fileno()).st_size
        if size > bounds.archive:
            raise self._fault(f"It has {size} bytes; the maximum is {bounds.archive}.")
        count, table_size, table_start = self._end(file, size)
        if count > bounds.entries:
            raise self._fault(f"It contains {count} files; the maximum is {bounds.entries}.")
        if table_size > count * MAX_ENTRY or table_start + table_size + END.size != size:
            raise self._fault("Its table of contents is not where its end record says.")
        file.seek(table_start)
        entries = self._table(file.read(table_size), count)
        self._check_names(entries, bounds)
        return self._with_headers(file, entries, table_start)

    def _end(self, file: BinaryIO, size: int) -> tuple[int, int, int]:
        """Return the number of entries, and size and offset of the table of contents."""
        file.seek(max(0, size - END.size))
        last = file.read(END.size)
        if len(last) < END.size or not last.startswith(END_MARK):
            raise self._fault("It is not a zip archive, was cut off, or has data after its end.")
        _, disk, first, here, count, table_size, table_start, comment = END.unpack(last)
        if comment or disk or first or here != count:
            raise self._fault("It has a comment, or is a part of a multi-part archive.")
        if count == ALL_16 or ALL_32 in (table_size, table_start):
            raise self._fault("It uses the zip64 format, which stories do not need.")
        return count, table_size, table_start

    def _table(self, table: bytes, count: int) -> list[ZipEntry]:
        entries, place = [], 0
        for _ in range(count):
            fields = table[place : place + ENTRY.size]
            if len(fields) < ENTRY.size or not fields.startswith(ENTRY_MARK):
                raise self._fault("Its table of contents is damaged.")
            (_, made_by, _, flags, method, _, _, checksum, packed, size) = ENTRY.unpack(fields)[:10]
            name_length, extra_length, comment, disk, _, attributes, start = ENTRY.unpack(fields)[10:]
            begin = place + ENTRY.size
            place = begin + name_length + extra_length + comment
            if place > len(table):
                raise self._fault("Its table of contents is damaged.")
            name = self._name(table[begin : begin + name_length])
            if comment or disk:
                raise self._fault(f"{name!r} has a comment, or is in another part of the archive.")
            self._check_extra(name, table[begin + name_length : begin + name_length + extra_length])
            if made_by >> 8 == UNIX and (attributes >> 16) & FILE_TYPE not in (0, REGULAR):
                raise self._fault(f"{name!r} is a link, a device or a folder; only files are allowed.")
            entries.append(ZipEntry(name, start, method, flags, packed, size, checksum))
        if place != len(table):
            raise self._fault("Its table of contents is larger than its end record says.")
        return entries

    def _check_names(self, entries: list[ZipEntry], bounds: ZipBounds) -> None:
        seen: set[str] = set()
        for entry in entries:
            if entry.name.lower() in seen:
                raise self._fault(f"{entry.name!r} occurs twice.")
            seen.add(entry.name.lower())
            most = bounds.most(entry.name)
            if most is None:
                raise self._fault(f"{entry.name[:200]!r} is not an expected file.")
            if entry.flags & ENCRYPTED:
                raise self._fault(f"{entry.name!r} is encrypted.")
            if entry.flags & ~(UTF8 | DEFLATE_LEVEL) or entry.method not in (STORED, DEFLATED):
                raise self._fault(f"{entry.name!r} uses an unsupported compression.")
            if entry.method == STORED and entry.packed != entry.size:
                raise self._fault(f"{entry.name!r} has two different sizes.")
            if entry.size > most:
                raise self._fault(f"{entry.name!r} has {entry.size} bytes; the maximum is {most}.")
        total = sum(entry.size for entry in entries)
        if total > bounds.total:
            raise self._fault(f"Unpacked, it would have {total} bytes; the maximum is {bounds.total}.")

    def _with_headers(self, file: BinaryIO, entries: list[ZipEntry], end: int) -> dict[str, ZipEntry]:
        """Return the entries with the offsets of their data.

        The data must be contiguous, from the first byte to the table.
        """
        found, place = {}, 0
        for entry in sorted(entries, key=lambda one: one.start):
            if entry.start != place:
                raise self._fault(f"The data of {entry.name!r} does not directly follow the file before it.")
            file.seek(entry.start)
            header = file.read(LOCAL.size)
            if len(header) < LOCAL.size or not header.startswith(LOCAL_MARK):
                raise self._fault(f"{entry.name!r} is not where the table of contents says.")
            _, _, flags, method, _, _, checksum, packed, size, name_length, extra_length = LOCAL.unpack(
                header
            )
            more = file.read(name_length + extra_length)
            said = flags, method, checksum, packed, size, more[:name_length]
            listed = entry.flags, entry.method, entry.checksum, entry.packed, entry.size, entry.name.encode()
            if said != listed:
                raise self._fault(f"{entry.name!r} does not match the table of contents.")
            self._check_extra(entry.name, more[name_length:])
            data = entry.start + LOCAL.size + name_length + extra_length
            place = data + entry.packed
            if place > end:
                raise self._fault(f"{entry.name!r} is cut off.")
            found[entry.name] = ZipEntry(**{**vars(entry), "data": data})
        if place != end:
            raise self._fault("It has extra data between its files and its table of contents.")
        return found

    def _name(self, name: bytes) -> str:
        try:
            return name.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._fault(f"{name[:200]!r} is not a valid UTF-8 name.") from error

    def _check_extra(self, name: str, extra: bytes) -> None:
        place = 0
        while place < len(extra):
            if place + EXTRA.size > len(extra):
                raise self._fault(f"{name!r} has damaged extra fields.")
            kind, length = EXTRA.unpack_from(extra, place)
            place += EXTRA.size + length
            if kind in (ZIP64, OTHER_NAME) or place > len(extra):
                raise self._fault(f"{name!r} has extra fields that change its size or name.")

    def _fault(self, reason: str) -> InterleaveError:
        return self._kind(
            f"{self._what} {str(self.path)!r} cannot be read: {reason[0].lower()}{reason[1:]}",
            "Ask the sender for the original file.",
        )


def write_zip(
    path: str | Path,
    files: Iterable[tuple[str, Path | bytes]],
    kind: type[InterleaveError],
    what: str = "Archive",
) -> None:
    """Write an archive, in the given order and without dates.

    Args:
        path: Path of the archive.
        files: Names with their contents.
        kind: Class of errors.
        what: Noun for error messages.

    Raises:
        InterleaveError: Of class `kind`: the file cannot be written, or would exceed 2 GB or 65535 entries.
    """
    path = Path(path)
    with writing(path, kind, what) as temporary:
        try:
            with zipfile.ZipFile(temporary, "x", zipfile.ZIP_STORED, allowZip64=False) as archive:
                for name, content in files:
                    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                    entry.create_system, entry.external_attr = UNIX, (REGULAR | 0o644) << 16
                    archive.writestr(entry, content if isinstance(content, bytes) else content.read_bytes())
        except zipfile.LargeZipFile as error:
            raise kind(
                f"{what} {str(path)!r} would exceed 2 GB or 65535 files.",
                "Keep the story as a folder.",
            ) from error

"""Malicious story archives: each kind turns a valid archive's bytes into a bad one's.

`KINDS` contains them by name. They are built from headers, since a library would refuse to write most of
them.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

GOOD = "run.json"
BLANK = b"\0" * (1 << 20)


@dataclass(frozen=True)
class Entry:
    """One entry, with what its header and its line in the table of contents claim."""

    name: bytes
    content: bytes
    method: int = 0
    flags: int = 0
    made_by: int = 3 << 8
    mode: int = 0o100644
    size: int | None = None
    packed: bytes | None = None
    extra: bytes = b""
    comment: bytes = b""
    local: dict[str, object] = field(default_factory=dict)
    start: int | None = None
    checksum: int | None = None

    @property
    def data(self) -> bytes:
        return self.content if self.packed is None else self.packed

    @property
    def sizes(self) -> tuple[int, int, int]:
        checksum = zlib.crc32(self.content) if self.checksum is None else self.checksum
        return checksum, len(self.data), len(self.content) if self.size is None else self.size


def entries_of(archive: bytes) -> list[Entry]:
    """Return the files of a valid archive."""
    with zipfile.ZipFile(io.BytesIO(archive)) as whole:
        return [Entry(one.filename.encode(), whole.read(one)) for one in whole.infolist()]


def built(entries: list[Entry], count: int | None = None, before: bytes = b"", gap: bytes = b"") -> bytes:
    """Return an archive of these entries, whether or not their claims are true."""
    data, table = bytearray(before), bytearray()
    for one in entries:
        start = len(data) if one.start is None else one.start
        here = replace(one, **one.local) if one.local else one  # type: ignore[arg-type]
        if one.start is None:
            data += struct.pack(
                "<4s5H3L2H", b"PK\3\4", 20, here.flags, here.method, 0, 0x21, *here.sizes,
                len(here.name), len(here.extra),
            )  # fmt: skip
            data += here.name + here.extra + here.data
        table += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", one.made_by, 20, one.flags, one.method, 0, 0x21, *one.sizes,
            len(one.name), len(one.extra), len(one.comment), 0, 0, one.mode << 16, start,
        )  # fmt: skip
        table += one.name + one.extra + one.comment
    data += gap
    count = len(entries) if count is None else count
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(table), len(data), 0)
    return bytes(data + table + end)


def _more(*entries: Entry) -> Callable[[bytes], bytes]:
    return lambda archive: built([*entries_of(archive), *entries])


def _first(**changed: object) -> Callable[[bytes], bytes]:
    """Change the first file (run.json)."""

    def make(archive: bytes) -> bytes:
        first, *others = entries_of(archive)
        return built([replace(first, **changed), *others])  # type: ignore[arg-type]

    return make


def _named(name: str | bytes, mode: int = 0o100644) -> Callable[[bytes], bytes]:
    raw = name if isinstance(name, bytes) else name.encode()
    return _more(Entry(raw, b"{}", mode=mode))


def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def _bomb(said: int) -> Callable[[bytes], bytes]:
    """Make run.json 65 MB with a claimed size of `said` bytes."""
    return lambda archive: _first(method=8, packed=_deflated(BLANK * 65), size=said)(archive)


def _many_bombs(archive: bytes) -> bytes:
    packed = _deflated(BLANK * 60)
    bombs = [
        Entry(b"attempts/%040x.json" % number, BLANK, 8, packed=packed, size=60 << 20) for number in range(40)
    ]
    return built([*entries_of(archive), *bombs])


def _overlapping(archive: bytes) -> bytes:
    """Give two names to one piece of data, like bombs that need no quine."""
    entries = entries_of(archive)
    return built([*entries, replace(entries[0], name=b"attempts/" + b"b" * 40 + b".json", start=0)])


def _too_many(archive: bytes) -> bytes:
    return built([*entries_of(archive), *(Entry(b"attempts/%040x.json" % one, b"") for one in range(60_001))])


def _zip64(archive: bytes) -> bytes:
    extra = struct.pack("<2H2Q", 1, 16, 1 << 40, 1 << 40)
    return _more(Entry(b"choices.json", b"{}", extra=extra, size=0xFFFFFFFF))(archive)


def _end(**changed: int) -> Callable[[bytes], bytes]:
    def make(archive: bytes) -> bytes:
        fields = list(struct.unpack("<4s4H2LH", archive[-22:]))
        for name, value in changed.items():
            place = ("mark", "disk", "first", "here", "count", "size", "start", "comment").index(name)
            fields[place] = value
        return archive[:-22] + struct.pack("<4s4H2LH", *fields)

    return make


def _encrypted(archive: bytes) -> bytes:
    return _first(flags=1)(archive)


PICTURE = "pictures/" + "c" * 40 + ".png"
KINDS: dict[str, Callable[[bytes], bytes]] = {
    "parent folder": _named("../../evil.json"),
    "absolute": _named("/tmp/evil.json"),
    "drive": _named("C:\\evil.json"),
    "backslash": _named("pictures\\..\\..\\evil.png"),
    "nul in the name": _named(b"plan.json\0.png"),
    "line end in the name": _named("plan.json\n"),
    "empty name": _named(""),
    "name not utf-8": _named(b"pictures/\xff\xfe.png"),
    "folder entry": _named("pictures/", 0o040755),
    "pickle": _named("pictures/model.pkl"),
    "deeper folder": _named("pictures/deep/" + "c" * 40 + ".png"),
    "long name": _named("a" * 5000),
    "twice": _named(GOOD),
    "link": _named(PICTURE, 0o120777),
    "device": _named(PICTURE, 0o060644),
    "folder as a file": _named("choices.json", 0o040755),
    "encrypted": _encrypted,
    "strong encryption": _first(flags=0x41),
    "masked header": _first(flags=0x2000),
    "sizes behind the data": _first(flags=8),
    "lzma": _first(method=14),
    "bomb with its true size": _bomb(65 << 20),
    "bomb that lies": _bomb(2),
    "bombs together": _many_bombs,
    "overlapping": _overlapping,
    "too many files": _too_many,
    "zip64 sizes": _zip64,
    "table behind the end": _end(start=0xFFFFFFF0),
    "table size of all": _end(size=0xFFFFFFFF),
    "too few in the table": _end(count=1, here=1),
    "too many in the table": _end(count=9999, here=9999),
    "several disks": _end(disk=1),
    "comment promised": _end(comment=9),
    "something before": lambda archive: built(entries_of(archive), before=b"#!/bin/sh\n"),
    "something behind": lambda archive: archive + b"hidden",
    "cut off": lambda archive: archive[: len(archive) // 2],
    "end alone": lambda archive: archive[-22:],
    "empty": lambda archive: b"",
    "no zip": lambda archive: b"<html>not found</html>",
    "no run in it": lambda archive: built([one for one in entries_of(archive) if one.name != b"run.json"]),
    "header of another name": _first(local={"name": b"evil.json"}),
    "header of another size": _first(local={"size": 3}),
    "header of another method": _first(local={"method": 8}),
    "two sizes": _first(size=3),
    "wrong checksum": _first(checksum=1),
    "deflate damaged": _first(method=8, packed=b"\xff" * 20),
    "deflate cut off": _first(method=8, packed=_deflated(BLANK)[:50], size=1 << 20),
    "data after the stream": _first(method=8, packed=_deflated(b"{}") + b"hidden", size=2),
    "other name in a note": _first(extra=struct.pack("<2H", 0x7075, 4) + b"evil"),
    "note cut off": _first(extra=b"\x01"),
    "picture that is none": lambda archive: built(
        [
            replace(one, content=b"GIF89a") if one.name.startswith(b"pictures/") else one
            for one in entries_of(archive)
        ]
    ),
    "picture of another digest": lambda archive: _exchanged(archive),
    "picture of billions of pixels": lambda archive: _huge_picture(archive),
    "deep json": _first(content=b"[" * 100_000 + b"]" * 100_000),
    "json of millions": _first(content=b"[" + b"0," * 3_000_000 + b"0]"),
    "newer": _first(content=b'{"format": "interleave-thinker run", "version": 99}'),
}
"""By name; each makes an archive that must be rejected in one line."""


def _exchanged(archive: bytes) -> bytes:
    entries = entries_of(archive)
    pictures = [one for one in entries if one.name.startswith(b"pictures/")]
    contents = dict(
        zip((one.name for one in pictures), (one.content for one in reversed(pictures)), strict=True)
    )
    return built([replace(one, content=contents.get(one.name, one.content)) for one in entries])


def _huge_picture(archive: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">L", len(content)) + kind + content + struct.pack(">L", zlib.crc32(kind + content))
        )

    header = chunk(b"IHDR", struct.pack(">2L5B", 60_000, 60_000, 8, 2, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(BLANK)) + chunk(b"IEND", b"")
    return built(
        [
            replace(one, content=png) if one.name.startswith(b"pictures/") else one
            for one in entries_of(archive)
        ]
    )

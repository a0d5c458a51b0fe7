"""Story folders from a stranger: truncated, foreign, newer, leading out by links, and far too large.

Every folder is valid except for one thing, so that the error is about that thing.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from interleave_thinker.backend.core.types import Trajectory
from interleave_thinker.backend.story.journal.copy import save_trajectory

Spoil = Callable[[Path, Path], object]
"""Spoils the story in a folder; the second path is a file outside of it."""


def make_folders(parent: Path, trajectory: Trajectory, outside: Path) -> list[str]:
    """Write all spoiled stories below `parent`; returns the folders' names."""
    for name, spoil in RUNS.items():
        save_trajectory(trajectory, parent / name)
        spoil(parent / name, outside)
    for name, record in RECORDS.items():
        folder = parent / name
        folder.mkdir(parents=True)
        (folder / "there.png").write_bytes(png(16, 16))
        (folder / "huge.png").write_bytes(png(90_000, 90_000))
        (folder / "link.png").symlink_to(outside)
        (folder / "folder.png").mkdir()
        text = record if isinstance(record, str) else json.dumps(record)
        (folder / "execution_record.json").write_text(text, encoding="utf-8")
    return [*RUNS, *RECORDS]


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """Return a PNG that declares this size but contains hardly any pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 10_000)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", pixels), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def picture(folder: Path) -> Path:
    """Return the path of an image of the story."""
    return sorted((folder / "pictures").iterdir())[0]


def cut(name: str) -> Spoil:
    return lambda folder, outside: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def written(name: str, content: Any) -> Spoil:
    def spoil(folder: Path, outside: Path) -> None:
        data = content if isinstance(content, (str, bytes)) else json.dumps(content)
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)

    return spoil


def changed(name: str, change: Callable[[Any], Any]) -> Spoil:
    def spoil(folder: Path, outside: Path) -> None:
        data = json.loads((folder / name).read_text(encoding="utf-8"))
        change(data)
        (folder / name).write_text(json.dumps(data), encoding="utf-8")

    return spoil


def linked(name: str) -> Spoil:
    def spoil(folder: Path, outside: Path) -> None:
        place = folder / name
        if place.is_dir():
            place.rename(outside.parent / f"taken-{folder.name}")
            place.symlink_to(outside.parent / f"taken-{folder.name}", target_is_directory=True)
        else:
            place.unlink(missing_ok=True)
            place.symlink_to(outside)

    return spoil


def pictured(data: Callable[[], bytes]) -> Spoil:
    return lambda folder, outside: picture(folder).write_bytes(data())


def bomb() -> bytes:
    """Write 64 million pixels in a few kilobytes, the maximum size that is read."""
    buffer = BytesIO()
    Image.new("1", (8000, 8000)).save(buffer, "PNG")
    return buffer.getvalue()


def linked_picture(folder: Path, outside: Path) -> None:
    place = picture(folder)
    place.unlink()
    place.symlink_to(outside)


RUNS: dict[str, Spoil] = {
    "cut-run": cut("run.json"),
    "cut-plan": cut("plan.json"),
    "empty-story": written("trajectory.json", ""),
    "foreign-story": written("trajectory.json", {"nodes": [], "links": []}),
    "binary-story": written("trajectory.json", os.urandom(4096)),
    "newer-run": changed("run.json", lambda data: data.update(version=99)),
    "deep-story": written("trajectory.json", '{"version": 1, "request": ' + "[" * 100_000),
    "large-story": lambda folder, outside: os.truncate(folder / "trajectory.json", 80_000_000),
    "no-number": changed("trajectory.json", lambda data: data["settings"].update(accept_at=float("nan"))),
    "path-as-digest": changed("run.json", lambda data: data["request"].update(images=["../../../etc/passwd"])),
    "chosen-nothing": changed("trajectory.json", lambda data: data["results"][0].update(chosen=999)),
    "linked-story": linked("trajectory.json"),
    "linked-pictures": linked("pictures"),
    "linked-lock": linked("in-use.lock"),
    "pipe-as-run": lambda folder, outside: ((folder / "run.json").unlink(), os.mkfifo(folder / "run.json"))[1],
    "picture-cut": lambda folder, outside: os.truncate(picture(folder), 100),
    "picture-gigantic": pictured(lambda: png(2**31 - 1, 2**31 - 1)),
    "picture-bomb": pictured(bomb),
    "picture-text-bomb": pictured(lambda: png(16, 16, (b"zTXt", b"k\0\0" + zlib.compress(b"\0" * 70_000_000, 1)))),
    "picture-program": pictured(lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"),
    "picture-hole": lambda folder, outside: os.truncate(picture(folder), 300_000_000),
    "picture-link": linked_picture,
}  # fmt: skip


def entry(**fields: Any) -> dict[str, Any]:
    return {"steps": [{"step": 1, "prompt": "p"} | fields]}


RECORDS: dict[str, Any] = {
    "record-broken": "{",
    "record-null": "null",
    "record-deep": "[" * 100_000,
    "record-wrong-kinds": {"user_input": 5, "global_context": [], "steps": {"1": 2}},
    "record-large-number": entry(step=10**30),
    "record-many": {"steps": [{"step": 1, "prompt": "p"}] * 10_001},
    "record-odd-verdict": entry(target_img="there.png", success="perhaps"),
    "record-absolute": entry(target_img="/etc/passwd"),
    "record-up": entry(target_img="../../../host.log"),
    "record-share": entry(target_img="\\\\server\\share\\a.png"),
    "record-zero": entry(target_img="a\0.png"),
    "record-address": entry(target_img="http://127.0.0.1:9/a.png"),
    "record-link": entry(target_img="link.png"),
    "record-folder": entry(target_img="folder.png"),
    "record-huge": entry(target_img="huge.png"),
}

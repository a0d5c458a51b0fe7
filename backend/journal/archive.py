"""A run's folder as one file: written to be shared, and read wherever a folder is.

Decision: the archive is the folder, file by file under the same names, so there is one format, and whoever
unzips it has a run that goes on. It is read where it lies: nothing is unpacked to a disk, hence nothing from
a stranger can be written anywhere. Only a run's own kinds of files may be in it (see journal.py for them),
and pictures are checked against their digests as those of a folder are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..errors import JournalError
from ..files.atomic import writing_folder
from ..files.bounded_reader import opened
from ..files.zip_archive import LOCAL, LOCAL_MARK, ZipBounds, ZipReader, write_zip
from ..pictures import MAX_BYTES
from .files import MAX_JSON, PART, PICTURES, RunFiles

ENDING = ".zip"
WORKFLOW = "workflow.json"
"""The graph that the story was made with, where there was one."""
RUN_NAME = "run.json"
WHAT = "Story"
JSON_FILES = re.compile(
    r"(run|plan|trajectory|choices|workflow)\.json|(attempts|verdicts)/[0-9a-f]{40}\.json"
)
PICTURE_FILES = re.compile(rf"{PICTURES}/[0-9a-f]{{40}}\.png")
MAX_FILES = 60_000
MAX_ARCHIVE = 2**31
MAX_TOTAL = 2**31


def _most(name: str) -> int | None:
    """Bytes that a file of this name may have."""
    if JSON_FILES.fullmatch(name):
        return MAX_JSON
    return MAX_BYTES if PICTURE_FILES.fullmatch(name) else None


BOUNDS = ZipBounds(archive=MAX_ARCHIVE, entries=MAX_FILES, total=MAX_TOTAL, most=_most)


class ArchivedFiles(RunFiles):
    """The files of a run in an archive, to be read; raises JournalError for one that holds anything else, and
    for whoever would write into it."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._zip = ZipReader(path, BOUNDS, JournalError, WHAT)

    def path(self, *parts: str) -> Path:
        """The path to name a file by; there is no file at it."""
        if not all(PART.fullmatch(part) for part in parts):
            raise JournalError(f"{'/'.join(parts)!r} is no name of a run's file.")
        return self.folder.joinpath(*parts)

    def read(self, *parts: str, limit: int = MAX_JSON) -> bytes | None:
        """As that of a folder's files."""
        return self._zip.read("/".join(parts), limit)

    def names(self) -> list[str]:
        """The names of all files in the archive."""
        return sorted(self._zip.entries)

    def write(self, data: bytes, *parts: str) -> None:
        """Raises JournalError."""
        raise self._read_only()

    def remove(self, *parts: str) -> None:
        """Raises JournalError."""
        raise self._read_only()

    def sweep(self, *folders: str) -> None:
        """Raises JournalError."""
        raise self._read_only()

    def _read_only(self) -> JournalError:
        return JournalError(
            f"{str(self.folder)!r} is a story in one file, in which no run goes on.",
            "Unzip it into a folder and give that.",
        )


def run_files(path: str | Path) -> RunFiles:
    """The files of a run in a folder, or in an archive if the path is that of a .zip file; raises
    JournalError for a bad one."""
    archived = Path(path).suffix.lower() == ENDING and Path(path).is_file()
    return ArchivedFiles(path) if archived else RunFiles(path)


def is_story_archive(path: Path) -> bool:
    """Whether a file may be a story's archive, by its name and its first bytes alone."""
    if path.suffix.lower() != ENDING:
        return False
    try:
        with opened(path, JournalError, WHAT) as file:
            first = file.read(LOCAL.size + len(RUN_NAME))
    except JournalError:
        return False
    return first.startswith(LOCAL_MARK) and first.endswith(RUN_NAME.encode())


def pack_run(folder: Path, path: Path, more: Mapping[str, bytes] | None = None) -> Path:
    """Write a run's folder as the archive `path`, with `more` files by name; returns `path`.

    Raises JournalError, also if it would be more than can be read again.
    """
    names = sorted(
        (str(file.relative_to(folder).as_posix()) for file in folder.rglob("*") if file.is_file()),
        key=lambda name: (name != RUN_NAME, name),
    )
    files: list[tuple[str, Path | bytes]] = [(name, folder / name) for name in names if _most(name)]
    write_zip(path, [*files, *(more or {}).items()], JournalError, WHAT)
    try:
        ArchivedFiles(path)
    except JournalError:
        path.unlink(missing_ok=True)
        raise
    return path


def unpack_run(path: Path, folder: Path) -> Path:
    """Write the files of an archive as the run's folder `folder`, which must not be there yet; returns it.

    Raises JournalError; then nothing is left behind.
    """
    files = ArchivedFiles(path)
    if folder.exists():
        raise JournalError(f"{str(folder)!r} is there already.", "Give another name.")
    with writing_folder(folder, JournalError, "The run's folder") as temporary:
        made = RunFiles(temporary)
        for name in files.names():
            content = files.read(*name.split("/"), limit=MAX_BYTES)
            made.write(content or b"", *name.split("/"))
    return folder

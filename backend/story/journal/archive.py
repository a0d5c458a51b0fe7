"""A run folder as one .zip file: written to be shared, and readable wherever a run folder is.

The archive contains the folder file by file, under the same names. So there is one format, and unzipping it
gives a run that can be resumed. It may also contain the page of the run, for people without this program; the
page is never read. The archive is read in place: nothing is unpacked to disk, so no foreign file can write
anywhere. Only the kinds of files that a run has are allowed (see journal.py). Images and clips are checked
against their digests as in a folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from ...core.errors import JournalError
from ...core.files.atomic import writing_folder
from ...core.files.bounded_reader import opened
from ...core.files.zip_archive import LOCAL, LOCAL_MARK, ZipBounds, ZipReader, write_zip
from ...core.pictures import MAX_BYTES
from ...core.types import Request
from ...core.types.clip import MAX_BYTES as MAX_MOVIE
from .clips import CLIPS
from .run_files import (
    MAX_JSON,
    PART,
    PICTURES,
    RUN,
    TRAJECTORY,
    RunFiles,
    RunRecord,
    request_record,
)
from .waiting import WAITING

ENDING = ".zip"
WORKFLOW = "workflow.json"
"""The ComfyUI graph that made the story, if there was one."""
PAGE = "index.html"
"""The story as a page, for people who have only a browser."""
OF_ONE_STORY = (TRAJECTORY, WAITING, WORKFLOW, PAGE)
"""Files that another story does not begin with, if it reuses the records of this one."""
WHAT = "Story"
JSON_FILES = re.compile(
    r"(run|plan|trajectory|choices|waiting|story_checks|workflow)\.json"
    r"|(attempts|verdicts|clips)/[0-9a-f]{40}\.json"
)
PICTURE_FILES = re.compile(rf"{PICTURES}/[0-9a-f]{{40}}\.png")
MOVIE_FILES = re.compile(rf"{CLIPS}/[0-9a-f]{{40}}\.mp4")
MAX_FILES = 60_000
MAX_PAGE = 2**28
MAX_ARCHIVE = 2**31
MAX_TOTAL = 2**31


def _most(name: str) -> int | None:
    """Return the maximum size in bytes of a file with this name; `None` if the name is not allowed."""
    if JSON_FILES.fullmatch(name):
        return MAX_JSON
    if name == PAGE:
        return MAX_PAGE
    if MOVIE_FILES.fullmatch(name):
        return MAX_MOVIE
    return MAX_BYTES if PICTURE_FILES.fullmatch(name) else None


BOUNDS = ZipBounds(archive=MAX_ARCHIVE, entries=MAX_FILES, total=MAX_TOTAL, most=_most)


class ArchivedFiles(RunFiles):
    """Read-only access to the files of a run in an archive.

    Raises:
        JournalError: The archive contains another kind of file, or something is written.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._zip = ZipReader(path, BOUNDS, JournalError, WHAT)

    def path(self, *parts: str) -> Path:
        """Return the path that names a file in messages; the file does not exist on disk.

        Raises:
            JournalError: The name is not valid for a file of a run.
        """
        if not all(PART.fullmatch(part) for part in parts):
            raise JournalError(f"{'/'.join(parts)!r} is not a valid name for a file of a run.")
        return self.folder.joinpath(*parts)

    def read(self, *parts: str, limit: int = MAX_JSON) -> bytes | None:
        """Return the content of a file, as `RunFiles.read` does."""
        return self._zip.read("/".join(parts), limit)

    def has(self, *parts: str) -> bool:
        """Return whether a file exists."""
        return "/".join(parts) in self._zip.entries

    def names(self) -> list[str]:
        """Return the names of all files in the archive."""
        return sorted(self._zip.entries)

    def write(self, data: bytes, *parts: str) -> None:
        """Raise an error, since archives are read-only.

        Raises:
            JournalError: Always.
        """
        raise self._read_only()

    def remove(self, *parts: str) -> None:
        """Raise an error, since archives are read-only.

        Raises:
            JournalError: Always.
        """
        raise self._read_only()

    def sweep(self, *folders: str) -> None:
        """Raise an error, since archives are read-only.

        Raises:
            JournalError: Always.
        """
        raise self._read_only()

    def _read_only(self) -> JournalError:
        return JournalError(
            f"Cannot write into {str(self.folder)!r}: a story in one file (.zip) is read-only.",
            "Unzip it and give the folder instead.",
        )


def run_files(path: str | Path) -> RunFiles:
    """Return the files of a run in a folder, or in an archive if the path is a .zip file.

    Raises:
        JournalError: The archive is damaged or contains other files.
    """
    archived = Path(path).suffix.lower() == ENDING and Path(path).is_file()
    return ArchivedFiles(path) if archived else RunFiles(path)


def is_story_archive(path: Path) -> bool:
    """Return whether a file may be a story's archive, judging by its name and first bytes alone."""
    if path.suffix.lower() != ENDING:
        return False
    try:
        with opened(path, JournalError, WHAT) as file:
            first = file.read(LOCAL.size + len(RUN))
    except JournalError:
        return False
    return first.startswith(LOCAL_MARK) and first.endswith(RUN.encode())


def pack_run(folder: Path, path: Path, more: Mapping[str, bytes] | None = None) -> Path:
    """Write a run folder as an archive.

    Args:
        folder: The run folder.
        path: Path of the archive.
        more: Content of additional files, by name.

    Returns:
        The path of the archive.

    Raises:
        JournalError: The archive cannot be written, or it would be too large to be read again.
    """
    files: list[tuple[str, Path | bytes]] = [(name, folder / name) for name in _names_in(folder)]
    write_zip(path, [*files, *(more or {}).items()], JournalError, WHAT)
    try:
        ArchivedFiles(path)
    except JournalError:
        path.unlink(missing_ok=True)
        raise
    return path


def copy_run(
    source: Path, folder: Path, left_out: Collection[str] = (PAGE,), request: Request | None = None
) -> Path:
    """Write the files of a run folder or an archive as a new run folder, and return the folder.

    If it fails, nothing is left behind.

    Args:
        source: The run folder, or the archive.
        folder: The new folder.
        left_out: Names of files that are not copied. A foreign page could contain scripts, and the folder may
            be served by ComfyUI.
        request: Request of the new run. Default: the same.

    Raises:
        JournalError: The folder exists, the source is damaged, or the folder cannot be written.
    """
    files = run_files(source)
    if folder.exists():
        raise JournalError(f"{str(folder)!r} exists already.", "Choose another name.")
    with writing_folder(folder, JournalError, "The run's folder") as temporary:
        made = RunFiles(temporary)
        for name in files.names() if isinstance(files, ArchivedFiles) else _names_in(source):
            if name not in left_out:
                content = files.read(*name.split("/"), limit=MAX_BYTES)
                made.write(content or b"", *name.split("/"))
        record = made.read_model(RunRecord, RUN, hint="Choose another story.") if request else None
        if record and request:
            made.write_model(record.model_copy(update={"request": request_record(request)}), RUN)
    return folder


def _names_in(folder: Path) -> list[str]:
    """Return the names of the files of a run in a folder, run.json first."""
    found = (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    return sorted(filter(_most, found), key=lambda name: (name != RUN, name))

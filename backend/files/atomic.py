"""Replaces files and folders atomically: completely, or not at all.

New content is written under a temporary name in the same folder and then renamed. Readers, and a killed
process, find the old content or the new, never a part of it. On Windows, a rename fails while another process
(a virus scanner, an indexer, a viewer) has the file open, mostly for milliseconds. It is retried for about a
second before it is an error. A link is replaced itself; nothing is written through it. Files that only grow,
such as ledgers, are appended to line by line.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import InterleaveError
from .leftovers import TEMPORARY as TEMPORARY
from .leftovers import is_left_over as is_left_over
from .leftovers import remove_left, unlink
from .leftovers import sweep as sweep
from .names import name_fault

WAITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Seconds between retries of a rename or removal that fails while another process has the file open."""
WINDOWS = os.name == "nt"
WINDOWS_PATH = 259
"""Maximum path length in characters on Windows, unless long paths are enabled."""
REPLACED = ".replaced"
"""Marks the temporary name of an earlier folder that is moved aside."""
MAX_STEM = 20
"""Characters of a file's name that its temporary name repeats. Few, to keep the path short."""


def write_bytes(
    path: str | Path, data: bytes, kind: type[InterleaveError], what: str = "File", durable: bool = True
) -> None:
    """Write a file atomically, and create its folder if necessary.

    Args:
        path: Path of the file.
        data: New content.
        kind: Class of errors.
        what: Noun for error messages.
        durable: As for `writing`.

    Raises:
        InterleaveError: Of class `kind`, naming the path.
    """
    with writing(path, kind, what, durable) as temporary, temporary.open("xb") as file:
        file.write(data)


def write_text(
    path: str | Path, text: str, kind: type[InterleaveError], what: str = "File", durable: bool = True
) -> None:
    """Write a text file atomically, as `write_bytes` does.

    The encoding is UTF-8 and line ends are kept, on every system. Surrogate halves become question marks,
    since no file can contain them.
    """
    write_bytes(path, text.encode("utf-8", "replace"), kind, what, durable)


def append_line(path: Path, line: str, kind: type[InterleaveError], what: str = "File") -> None:
    """Append a line in UTF-8, and create the file and its folder if necessary.

    If a kill or a full disk cut off the last line, the new line still starts on its own line, so readers lose
    only the damaged line.

    Raises:
        InterleaveError: Of class `kind`, naming the path.
    """
    data = line.encode("utf-8", "replace") + b"\n"
    with _errors(path, kind, what):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: each line is one write, so that lines of several processes do not mix.
        with path.open("a+b", buffering=0) as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    data = b"\n" + data
            while data:
                data = data[file.write(data) :]


@contextmanager
def writing(
    path: str | Path, kind: type[InterleaveError], what: str = "File", durable: bool = True
) -> Iterator[Path]:
    """Yield a temporary path to write a file to (with torch.save, an image library), then move it into place.

    Args:
        path: Path of the file.
        kind: Class of errors.
        what: Noun for error messages.
        durable: Whether to wait for the disk, so that the file survives a power failure. Without it, the file
            survives only a kill, which is enough for content that can be created again.

    Raises:
        InterleaveError: Of class `kind`, naming the path. The earlier file is then unchanged, and no
            temporary file remains.
    """
    path = Path(path)
    _check_name(path, kind, what)
    temporary = _temporary(path, path.name[:MAX_STEM])
    with _errors(path, kind, what):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            if durable:
                _flush(temporary)
            _patiently(lambda: os.replace(temporary, path))
        except BaseException:
            with suppress(OSError):
                _patiently(lambda: unlink(temporary))
            raise
        if durable:
            _flush_folder(path.parent)


@contextmanager
def writing_folder(path: str | Path, kind: type[InterleaveError], what: str = "Folder") -> Iterator[Path]:
    """Yield a new, empty folder to fill, then move it to `path`, replacing an earlier folder.

    See `replace_folder`. Only one process may do this for a path at a time, because leftovers of killed
    processes are removed first.

    Raises:
        InterleaveError: Of class `kind`, naming the path. The earlier folder is then unchanged, and the new
            one is removed.
    """
    path = Path(path)
    _check_name(path, kind, what)
    temporary = _temporary(path, path.name)
    with _errors(path, kind, what):
        try:
            remove_left(path, "")
            temporary.mkdir(parents=True)
            yield temporary
            _replace_folder(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextmanager
def scratch_folder(parent: str | Path, kind: type[InterleaveError], what: str = "Folder") -> Iterator[Path]:
    """Yield a new, empty folder below `parent`. It is removed at the end unless it was moved away.

    Its permissions follow the user's umask, so that other users can read the result if the user allows it.
    Folders of the `tempfile` module are private to the user.

    Raises:
        InterleaveError: Of class `kind`.
    """
    temporary = _temporary(Path(parent) / "scratch", "scratch")
    with _errors(temporary, kind, what):
        temporary.mkdir(parents=True)
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def replace_folder(
    finished: str | Path, path: str | Path, kind: type[InterleaveError], what: str = "Folder"
) -> Path:
    """Move the folder `finished` (on the same disk) to `path`, replacing an earlier folder.

    The earlier folder is moved aside and deleted only after the new one is in place. If it were deleted in
    place, a kill could leave a part of it.

    Returns:
        `path`.

    Raises:
        InterleaveError: Of class `kind`, naming the path. The earlier folder is then unchanged.
    """
    path = Path(path)
    _check_name(path, kind, what)
    with _errors(path, kind, what):
        _replace_folder(Path(finished), path)
    return path


def remove(path: str | Path, kind: type[InterleaveError], what: str = "File") -> None:
    """Delete a file or a link, if it exists.

    Raises:
        InterleaveError: Of class `kind`, naming the path.
    """
    path = Path(path)
    with _errors(path, kind, what, "removed"):
        _patiently(lambda: unlink(path))


def _temporary(path: Path, stem: str) -> Path:
    return path.with_name(f".{stem}.{secrets.token_hex(8)}.tmp")


def _replace_folder(finished: Path, path: Path) -> None:
    aside = _temporary(path, f"{path.name}{REPLACED}")
    earlier = os.path.lexists(path)
    if earlier:
        _patiently(lambda: os.rename(path, aside))
    try:
        _patiently(lambda: os.rename(finished, path))
    except BaseException:
        if earlier:
            _patiently(lambda: os.rename(aside, path))
        raise
    remove_left(path, REPLACED)


def _patiently(act: Callable[[], object]) -> None:
    """Call `act`, and retry it for about a second while another process has the file open."""
    for wait in WAITS:
        try:
            act()
            return
        except PermissionError:
            time.sleep(wait)
    act()


def _flush(path: Path) -> None:
    """Wait until the content is on the disk."""
    # Windows flushes only files opened for writing.
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """Wait until the new name is on the disk, if the system supports it (not on Windows or some shares)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check_name(path: Path, kind: type[InterleaveError], what: str) -> None:
    fault = name_fault(path.name, WINDOWS)
    if fault:
        raise kind(f"{what} {str(path)!r} cannot be written: its name {fault}.", "Use another name.")


@contextmanager
def _errors(path: Path, kind: type[InterleaveError], what: str, done: str = "written") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise kind(f"{what} {str(path)!r} cannot be {done} ({reason}).", _hint(path, error)) from error


def _hint(path: Path, error: OSError) -> str:
    if WINDOWS and len(os.path.abspath(path)) > WINDOWS_PATH:
        return (
            f"Windows limits paths to {WINDOWS_PATH} characters unless long paths are enabled: "
            "use a folder with a shorter path."
        )
    if isinstance(error, PermissionError):
        return "Close the program that has the file open, or use a folder with write permission."
    return "Free disk space, or use another folder."

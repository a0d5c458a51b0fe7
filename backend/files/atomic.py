"""The one way in which a file or folder replaces an earlier one: in one step, or not at all.

Decision: the new content is finished under a temporary name in the same folder and takes its place by one
rename, so that whoever looks, and whoever is killed, finds the old content or the new and never half of one.
On Windows a rename is refused while another process (a virus scanner, an indexer, a viewer) has the file
open, mostly for milliseconds: it is tried again for about a second before it is an error. A name that is a
link is replaced itself; nothing is written through it. Files that only grow, such as ledgers, are appended to
line by line.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import InterleaveError
from .names import name_fault

TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.tmp")
"""Names of what is being written. One that stays was left by a process that was killed."""
WAITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Seconds between the tries of a rename or removal that is refused while another process has the file
open."""
WINDOWS = os.name == "nt"
WINDOWS_PATH = 259
"""Longest path in characters that Windows takes unless long paths are switched on."""
REPLACED = ".replaced"
"""Marks the temporary name of an earlier folder that is moved aside."""
MAX_STEM = 20
"""Characters of a file's name that its temporary name repeats, so that the path grows little."""


def write_bytes(
    path: str | Path, data: bytes, kind: type[InterleaveError], what: str = "File", durable: bool = True
) -> None:
    """Make `data` the content of the file, and its folder if there is none; see `writing` for `durable` and
    errors."""
    with writing(path, kind, what, durable) as temporary, temporary.open("xb") as file:
        file.write(data)


def write_text(
    path: str | Path, text: str, kind: type[InterleaveError], what: str = "File", durable: bool = True
) -> None:
    """As `write_bytes`, in UTF-8 with the line ends that `text` has, on every system; half of a surrogate
    pair is written as a question mark, since no file can hold it."""
    write_bytes(path, text.encode("utf-8", "replace"), kind, what, durable)


def append_line(path: Path, line: str, kind: type[InterleaveError], what: str = "File") -> None:
    """Append a line in UTF-8, and create the file and its folder if they do not exist.

    If a kill or a full disk cut off the last line, the new one still starts on a line of its own, so readers
    lose only the line that was cut off. Raises `kind` naming the path.
    """
    data = line.encode("utf-8", "replace") + b"\n"
    with _errors(path, kind, what):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: a line is one write, so lines of several processes do not mix.
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
    """Yield a temporary path for whoever writes the file itself (torch.save, an image library), then put it
    in place.

    `durable` waits for the disk, so that the file also outlives a loss of power; without it only a kill is
    survived, which is enough for what can be made again. Raises `kind` naming the path; the earlier file is
    then untouched, and whatever goes wrong leaves no temporary file.
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
                _patiently(lambda: _unlink(temporary))
            raise
        if durable:
            _flush_folder(path.parent)


@contextmanager
def writing_folder(path: str | Path, kind: type[InterleaveError], what: str = "Folder") -> Iterator[Path]:
    """Yield a new, empty folder beside `path` to be filled, then put it in place of an earlier one; see
    `replace_folder`.

    One process at a time: what a killed one has left of the same folder is removed first. Raises `kind`
    naming the path; the earlier folder is then where it was, and the half-filled one is gone.
    """
    path = Path(path)
    _check_name(path, kind, what)
    temporary = _temporary(path, path.name)
    with _errors(path, kind, what):
        try:
            _remove_left(path, "")
            temporary.mkdir(parents=True)
            yield temporary
            _replace_folder(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextmanager
def scratch_folder(parent: str | Path, kind: type[InterleaveError], what: str = "Folder") -> Iterator[Path]:
    """Yield a new, empty folder below `parent`, gone at the end unless it was moved to its place before.

    It has the rights that the user's umask gives, so that what becomes of it can be read by whom the user
    wants (those of the `tempfile` module are the user's alone). Raises `kind`.
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
    """Make the folder `finished` (on the same disk) the folder `path`, in place of one that may be there;
    returns `path`.

    The earlier folder is moved aside and deleted only when the new one is in its place: deleted where it
    lies, a kill in the middle would leave half of it. Raises `kind` naming the path; the earlier folder is
    then where it was.
    """
    path = Path(path)
    _check_name(path, kind, what)
    with _errors(path, kind, what):
        _replace_folder(Path(finished), path)
    return path


def remove(path: str | Path, kind: type[InterleaveError], what: str = "File") -> None:
    """Delete the file, or the link, if it is there; raises `kind`."""
    path = Path(path)
    with _errors(path, kind, what, "removed"):
        _patiently(lambda: _unlink(path))


def sweep(*folders: str | Path, files_alone: bool = False) -> None:
    """Remove what killed processes left half-written directly in these folders; what is in use stays for the
    next time.

    `files_alone` where no folder is ever written by `writing_folder`: one of such a name is then somebody's
    own.
    """
    for folder in map(Path, folders):
        if not folder.is_dir():
            continue
        for path in [path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)]:
            if not files_alone or is_left_over(path):
                _remove_tree(path)


def is_left_over(path: Path) -> bool:
    """Whether a killed process may have left this file, or link."""
    return TEMPORARY.fullmatch(path.name) is not None and (path.is_symlink() or not path.is_dir())


def _temporary(path: Path, stem: str) -> Path:
    return path.with_name(f".{stem}.{secrets.token_hex(8)}.tmp")


def _remove_left(path: Path, mark: str) -> None:
    """Remove the temporary folders of this name and mark that killed processes have left."""
    if path.parent.is_dir():
        left = re.compile(rf"\.{re.escape(path.name + mark)}\.[0-9a-f]{{16}}\.tmp")
        for found in [found for found in path.parent.iterdir() if left.fullmatch(found.name)]:
            _remove_tree(found)


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
    _remove_left(path, REPLACED)


def _remove_tree(path: Path) -> None:
    """Without following links, and without an error: what cannot be removed now is swept another time."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            _unlink(path)


def _unlink(path: Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _patiently(act: Callable[[], object]) -> None:
    for wait in WAITS:
        try:
            act()
            return
        except PermissionError:
            time.sleep(wait)
    act()


def _flush(path: Path) -> None:
    """Wait until the content is on the disk."""
    # Windows flushes only what is open for writing.
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """Wait until the new name is on the disk, where folders can be asked for it: not on Windows, nor on some
    shares."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check_name(path: Path, kind: type[InterleaveError], what: str) -> None:
    fault = name_fault(path.name, WINDOWS)
    if fault:
        raise kind(f"{what} {str(path)!r} cannot be written (its name {fault}).", "Give another name.")


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
            f"Windows takes paths of {WINDOWS_PATH} characters unless long paths are switched on: "
            "give a folder with a shorter path."
        )
    if isinstance(error, PermissionError):
        return "Close the program that has it open, or give a folder that you may write to."
    return "Make room, or give another folder."

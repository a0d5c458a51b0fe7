"""Replaces files and folders atomically: completely, or not at all.

New content is written under a temporary name in the same folder and then renamed. Readers, and a killed
process, find the old content or the new, never a part of it. On Windows, a rename fails while another process
(a virus scanner, an indexer, a viewer) has the file open, mostly for milliseconds. It is retried for about a
second before it is an error. A link is replaced itself; nothing is written through it. Files that only grow,
such as ledgers, are appended to line by line.

Names are valid on every system: a story made on Linux may be copied to Windows. An invalid name is rejected
with a reason and never changed, because two names changed into one would overwrite each other.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import InterleaveError

RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\.|$)", re.IGNORECASE
)
"""Device names of Windows, also with an extension: aux.png is the serial port."""
NOWHERE = re.compile(r"[\x00/\ud800-\udfff]")
"""Characters that no system allows in a name."""
NOT_ON_WINDOWS = re.compile(r'[\x00-\x1f<>:"|?*\\]')
MAX_NAME_LENGTH = 255
"""Maximum length: bytes on Linux, UTF-16 units on Windows and macOS."""

SLUG_LETTERS, SLUG_BYTES = 40, 80


def slug(text: str) -> str:
    """Return the beginning of a text as part of a file name, or "" if no letter or digit is left.

    Letters and digits of any script keep their combining marks, and everything else becomes a hyphen. The
    result has at most SLUG_LETTERS characters and SLUG_BYTES bytes. It must be followed by something unique,
    such as a digest: different texts can have the same slug, and alone it can be a reserved name.
    """
    plain = unicodedata.normalize("NFC", text.lower())
    kept = [""]
    for sign in plain:
        kind = unicodedata.category(sign)[0]
        is_kept = kind in "LN" or (kind == "M" and kept[-1] not in ("", "-"))
        kept.append(sign if is_kept else "-")
    short = re.sub("-+", "-", "".join(kept))[:SLUG_LETTERS]
    return short.encode()[:SLUG_BYTES].decode(errors="ignore").strip("-")


def name_fault(name: str, windows: bool = True) -> str:
    """Return why a name is invalid, as the end of a sentence ("is ..."), or "" if it is valid.

    Args:
        name: Name of a file or folder.
        windows: Whether to apply the rules of Windows too.
    """
    if name in ("", ".", ".."):
        return "is empty or only dots"
    if NOWHERE.search(name):
        return "contains a character that file names cannot have"
    if len(name.encode()) > MAX_NAME_LENGTH:
        return f"is longer than {MAX_NAME_LENGTH} bytes"
    if not windows:
        return ""
    if NOT_ON_WINDOWS.search(name):
        return 'contains one of < > : " | ? * \\ or a control character, which Windows does not allow'
    if name[-1] in ". ":
        return "ends with a dot or a space, which Windows removes"
    if RESERVED.match(name):
        return "is a device name on Windows"
    return ""


TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.tmp")
"""Temporary names. A file with such a name that persists was left behind by a killed process."""


def sweep(*folders: str | Path, files_alone: bool = False) -> None:
    """Remove temporary files and folders of killed processes directly in these folders.

    What is in use stays until the next time.

    Args:
        *folders: Folders to clean.
        files_alone: Whether to remove only files. Use it where `writing_folder` is never used, so that a
            folder with such a name belongs to the user.
    """
    for folder in map(Path, folders):
        if not folder.is_dir():
            continue
        for path in [path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)]:
            if not files_alone or is_left_over(path):
                remove_tree(path)


def is_left_over(path: Path) -> bool:
    """Return whether a file or link may be left over from a killed process."""
    return TEMPORARY.fullmatch(path.name) is not None and (path.is_symlink() or not path.is_dir())


def remove_left(path: Path, mark: str) -> None:
    """Remove temporary folders of this name and mark that killed processes left behind."""
    if path.parent.is_dir():
        left = re.compile(rf"\.{re.escape(path.name + mark)}\.[0-9a-f]{{16}}\.tmp")
        for found in [found for found in path.parent.iterdir() if left.fullmatch(found.name)]:
            remove_tree(found)


def remove_tree(path: Path) -> None:
    """Remove a file or folder without following links.

    Errors are ignored, since the next sweep repeats the attempt.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            unlink(path)


def unlink(path: Path) -> None:
    """Delete a file or a link, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)


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

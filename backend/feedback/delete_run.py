"""Deletes a run folder, and tells how much of the disk it uses."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from ..errors import JournalError
from ..journal.journal import NAME, NOTE, FolderLock
from ..journal.run_files import RUN

HELD = {NAME, NOTE}


def run_bytes(folder: Path) -> int:
    """Return the size of all files of a run in bytes, without following links."""
    total, waiting = 0, [str(folder)]
    while waiting:
        # A run that is being written may remove a temporary file in the meantime.
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total


def delete_run(folder: Path) -> None:
    """Delete a run folder with everything in it. Links are removed, never followed.

    `run.json` is deleted last, so a folder of which a part remained is still a run, and can be deleted again.

    Raises:
        JournalError: The folder is not a run, another process is using it, or a file cannot be deleted.
    """
    if folder.is_symlink() or not (folder / RUN).is_file():
        raise JournalError(
            f"{str(folder)!r} does not contain a run.", "Only the folder of a run can be deleted."
        )
    lock = FolderLock(folder)
    lock.take()
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name == RUN)
        for path in entries:
            if path.name not in HELD:
                _remove(path)
    except (OSError, RecursionError) as error:  # the latter for folders a thousand levels deep
        raise JournalError(
            f"{str(folder)!r} cannot be deleted: {getattr(error, 'strerror', None) or error}.",
            "Close programs that use its files, or delete the folder by hand.",
        ) from error
    finally:
        lock.release()
    shutil.rmtree(folder, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()

"""Lets one process at a time use a run folder, with a note that names the process.

The lock is a lock of the operating system (files/lock.py), so a killed run never blocks the next one. The
note is only information for the user.
"""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from pathlib import Path

from ..errors import JournalError
from ..files.bounded_reader import read_text
from ..files.lock import SystemLock
from .records.run_files import RunFiles

NAME = "in-use.lock"
NOTE = "in-use.txt"
MAX_NOTE = 1000


class FolderLock:
    """The lock of a run folder: `take` before writing, `release` after."""

    def __init__(self, folder: Path) -> None:
        self._files = RunFiles(folder)
        self._lock: SystemLock | None = None

    def take(self) -> None:
        """Take the lock.

        Raises:
            JournalError: Another run has the lock. The message names its process.
        """
        lock = SystemLock(self._files.path(NAME))
        if not lock.take():
            raise JournalError(
                f"Another run is using {str(self._files.folder)!r}{self._whose()}.",
                "Wait until it has ended, or choose another folder.",
            )
        self._lock = lock
        try:
            self._files.write(f"{_this_process()}\n".encode(), NOTE)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock. Does nothing if it is not held."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            # In a folder that was deleted, or on a disk that was removed, there is no note to delete.
            with suppress(JournalError):
                self._files.remove(NOTE)
        finally:
            lock.release()

    def _whose(self) -> str:
        with suppress(JournalError):
            words = read_text(self._files.path(NOTE), MAX_NOTE, JournalError, "Note").split()
            owner = "".join(one for one in " ".join(words) if one.isprintable())
            return f" ({owner[:200]})" if owner else ""
        return ""


def _this_process() -> str:
    return f"process {os.getpid()} on {platform.node()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"

"""One process at a time in a run's folder, and a note of which one for whoever finds it taken.

Decision: the lock is the system's (files/lock.py), so nothing that a killed run leaves behind keeps the next
one out. The note beside it is for people alone and decides nothing.
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
from .files import RunFiles

NAME = "in-use.lock"
NOTE = "in-use.txt"
MAX_NOTE = 1000


class FolderLock:
    """The lock of a run's folder; `take` before writing, `release` after."""

    def __init__(self, folder: Path) -> None:
        self._files = RunFiles(folder)
        self._lock: SystemLock | None = None

    def take(self) -> None:
        """Take the lock; raises JournalError if another run has it, saying which."""
        lock = SystemLock(self._files.path(NAME))
        if not lock.take():
            raise JournalError(
                f"Another run is using {str(self._files.folder)!r} right now{self._whose()}.",
                "Wait for it, or give another folder.",
            )
        self._lock = lock
        try:
            self._files.write(f"{_this_process()}\n".encode(), NOTE)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give the lock back; safe to call without having it."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            # A folder that was deleted, or whose disk went away, has no note to take back.
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

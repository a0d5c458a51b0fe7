"""A lock for one process or thread at a time, which the system releases if its holder dies.

It uses the system's file locks (`flock`, through the library filelock) and not files with process ids. System
locks also work between containers, where the same id is another process, and a killed holder leaves no stale
lock. A few file systems have no locks. There the lock always succeeds, with a warning in the log.
"""

from __future__ import annotations

import errno
import logging
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import JournalError
from ..machine.libraries import least

if TYPE_CHECKING:
    from filelock import FileLock

NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}

logger = logging.getLogger(__name__)


class SystemLock:
    """Locks the file at `path`, which is created for the lock and removed afterwards.

    The same object must not take the lock twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: FileLock | None = None

    def take(self, seconds: float = 0.0) -> bool:
        """Take the lock, and return False if it is held by another process or thread.

        Args:
            seconds: Maximum time to wait.

        Raises:
            JournalError: The file cannot be written, or the library filelock is missing.
        """
        try:
            from filelock import FileLock, Timeout
        except ImportError as error:
            raise JournalError(f"The library filelock is missing ({error}).", _how()) from error
        # Check once: between two checks, the holder of the lock may remove its file.
        with suppress(OSError):
            if not stat.S_ISREG(self.path.lstat().st_mode):
                raise JournalError(f"{str(self.path)!r} is not a file.", "Remove it.")
        try:
            # The lock may be released from another thread.
            lock = FileLock(self.path, thread_local=False, fallback_to_soft=False)
            lock.acquire(timeout=seconds, poll_interval=0.01)
        except Timeout:
            return False
        except TypeError as error:
            raise JournalError(f"The library filelock is too old ({error}).", _how()) from error
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise JournalError(
                    f"{str(self.path)!r} cannot be written ({error.strerror or error}).",
                    "Use a folder with write permission, or free disk space.",
                ) from error
            logger.warning(
                "%r is on a file system without locks. "
                "Start only one run there, because two runs could write at the same time.",
                str(self.path.parent),
            )
            with suppress(OSError):
                self.path.unlink()
            return True
        self._lock = lock
        return True

    @contextmanager
    def held(self, refusal: Exception, seconds: float = 0.0) -> Iterator[None]:
        """Hold the lock while the block runs.

        Args:
            refusal: Error to raise if the lock is held by another process or thread.
            seconds: Maximum time to wait.

        Raises:
            Exception: `refusal`.
            JournalError: As for `take`.
        """
        if not self.take(seconds):
            raise refusal
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock. Safe to call without holding it."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        # Delete the file while the lock is held: a waiting process then finds it gone and creates a new one.
        with suppress(OSError):
            self.path.unlink()
        lock.release()


def _how() -> str:
    return f'Run: pip install "filelock>={least("filelock")}"'

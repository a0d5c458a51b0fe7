"""A lock that one process or thread has at a time, and that the system takes back when its holder dies,
however it dies.

Decision: the system's own file locks (`flock`, through the library filelock) and not files that name their
process: they hold between containers too, where the same number is another process, and a killed holder
leaves nothing that anyone would have to judge stale. A few file systems have no locks; there a lock is had by
everyone, which is said once in the log.
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
    """The lock on the file at `path`, which is made for it and removed after. Not to be taken twice by the
    same object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: FileLock | None = None

    def take(self, seconds: float = 0.0) -> bool:
        """Take it, waiting so long at most; False if somebody else has it. Raises JournalError if the file
        cannot be written."""
        try:
            from filelock import FileLock, Timeout
        except ImportError as error:
            raise JournalError(f"A library is missing ({error}).", _how()) from error
        # Asked once: between two questions whoever has the lock may have removed its file.
        with suppress(OSError):
            if not stat.S_ISREG(self.path.lstat().st_mode):
                raise JournalError(f"{str(self.path)!r} is not a file.", "Remove it.")
        try:
            # Whoever opened it may release it from another thread.
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
                    "Give a folder that can be written, or make room.",
                ) from error
            logger.warning(
                "%r is on a file system without locks: "
                "nothing keeps two runs from writing there at the same time, so start one only.",
                str(self.path.parent),
            )
            with suppress(OSError):
                self.path.unlink()
            return True
        self._lock = lock
        return True

    @contextmanager
    def held(self, refusal: Exception, seconds: float = 0.0) -> Iterator[None]:
        """Have it while the block runs, waiting so long at most; raises `refusal` if somebody else has it."""
        if not self.take(seconds):
            raise refusal
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Give it back; safe to call without having it."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        # While it is held: who waits for this file finds it gone and makes a new one.
        with suppress(OSError):
            self.path.unlink()
        lock.release()


def _how() -> str:
    return f'pip install "filelock>={least("filelock")}"'

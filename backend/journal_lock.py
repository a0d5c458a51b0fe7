"""One process at a time in a run's folder, and no lock left behind by one that was killed.

Decision: a lock file that names its process, taken by an exclusive link, and not the system's file locks: those differ
between systems and are lost on network drives. A lock whose process is gone is stale and taken over; the time at which
the process started tells it from a later one with the same number (a restarted container counts from 1 again).
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

from .bounded_reader import read_bytes_if_any
from .errors import JournalError

NAME = "in-use.lock"
MAX_BYTES = 1000


class FolderLock:
    """The lock file of a run's folder; `take` before writing, `release` after."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._token: bytes | None = None

    def take(self) -> None:
        """Take the lock; raises JournalError if a living process has it."""
        token = json.dumps(
            {"pid": os.getpid(), "started": _started(os.getpid()), "token": secrets.token_hex(8)}
        ).encode()
        for _ in range(10):
            try:
                if self._place(token):
                    self._token = token
                    return
                found = self._read()
                if found is not None and _alive(found):
                    break
                self._discard(found)
            except OSError as error:
                raise JournalError(
                    f"{str(self.path)!r} cannot be written ({error.strerror or error}).",
                    "Give a folder that can be written, or make room.",
                ) from error
        raise JournalError(
            f"Another run is using {str(self.path.parent)!r} right now.",
            f"Wait for it or give another folder; if there is none, delete {NAME!r} in it.",
        )

    def release(self) -> None:
        """Give the lock back; safe to call without having it."""
        if self._token is not None and self._read() == self._token:
            self.path.unlink(missing_ok=True)
        self._token = None

    def _place(self, token: bytes) -> bool:
        # A link makes the file appear with its content, where creating it would show an empty lock for a moment.
        temporary = self.path.with_name(f".{NAME}.{secrets.token_hex(8)}.tmp")
        try:
            temporary.write_bytes(token)
            os.link(temporary, self.path)
            return True
        except FileExistsError:
            return False
        except (OSError, NotImplementedError):
            return self._create(token)
        finally:
            temporary.unlink(missing_ok=True)

    def _create(self, token: bytes) -> bool:
        """The way for file systems without hard links."""
        try:
            with self.path.open("xb") as file:
                file.write(token)
            return True
        except FileExistsError:
            return False

    def _read(self) -> bytes | None:
        return read_bytes_if_any(self.path, MAX_BYTES, JournalError, "Lock")

    def _discard(self, stale: bytes | None) -> None:
        """Remove the lock if it still is the stale one: of two processes that find it, one may already have replaced it."""
        if stale is None:
            return
        aside = self.path.with_name(f".{NAME}.{secrets.token_hex(8)}.tmp")
        try:
            os.rename(self.path, aside)
        except FileNotFoundError:
            return
        if read_bytes_if_any(aside, MAX_BYTES, JournalError, "Lock") == stale:
            aside.unlink(missing_ok=True)
        else:
            os.replace(aside, self.path)


def _alive(content: bytes) -> bool:
    """Whether the process that wrote this lock still runs. Content that no run wrote counts as stale."""
    try:
        record = json.loads(content)
        pid, started = int(record["pid"]), str(record["started"])
    except (ValueError, KeyError, TypeError):
        return False
    if pid <= 0 or not _runs(pid):
        return False
    now = _started(pid)
    return not now or not started or now == started


def _runs(pid: int) -> bool:
    if sys.platform == "win32":
        import ctypes

        # os.kill would end the process there; one that can be opened and is not signalled is alive, and so is one
        # that may not be opened (error 5).
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = kernel.OpenProcess(0x00100000, False, pid)
        if not handle:
            return ctypes.get_last_error() == 5
        try:
            return kernel.WaitForSingleObject(handle, 0) == 0x102
        finally:
            kernel.CloseHandle(handle)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _started(pid: int) -> str:
    """When a process started, in the system's own count; empty where the system does not say."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    # A zombie was killed already and only waits for its parent to notice.
    return "dead" if fields[0] in "ZX" else f"{boot} {fields[19]}"

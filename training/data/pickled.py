"""Reads a list pickled by torch or Python, as used by published datasets, without running its code.

A pickle is a program. It is read in a child process that cannot look up any name, so that it can only create
lists, dictionaries, texts and numbers. (torch's `weights_only` also allows tensors and registered names, and
needs torch.) Such a pickle could still use up memory, time or disk space. The child therefore has limits for
them, a deadline, no environment variables and an empty working directory, and must not write files. It
returns JSON, one line per item, which is read like any untrusted file. The deadline covers only the child's
own time, since the caller may take long between items (for instance to ask a teacher). On Windows and macOS
the child's memory is not limited.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ...backend.errors import SettingsError
from ...backend.files.bounded_reader import opened, parse_json
from ...backend.shown_text import one_line

ENDINGS = (".pt", ".pth", ".pkl", ".pickle")
CHILD = Path(__file__).with_name("pickle_child.py")
MAX_FILE = 4 * 1024**3
MAX_LINE = 4 * 1024 * 1024
BYTES_A_SECOND = 2 * 1024 * 1024
MIN_SECONDS = 30.0
LOOKED_EVERY = 0.1
MIN_MEMORY = 512 * 1024**2
MEMORY_A_BYTE = 12
"""Memory of the child per byte of the file, for texts and lists as Python stores them."""
CONVERT = "If you trust the file, load it with torch and save its list as JSON."


def pickled_items(path: Path, seconds: float | None = None) -> Iterator[Any]:
    """Yield the items of a pickled list as plain values; an item of another type is None.

    Args:
        path: The file.
        seconds: Time limit for reading. Default: depends on the size.

    Raises:
        SettingsError: The pickle uses any name, is damaged, or needs too much memory or time.
    """
    with opened(path, SettingsError, "File") as file, tempfile.TemporaryDirectory() as nowhere:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE:
            raise SettingsError(f"File {str(path)!r} is larger than {MAX_FILE} bytes.", CONVERT)
        deadline = seconds or MIN_SECONDS + size / BYTES_A_SECOND
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(CHILD), str(_memory(size)), str(int(deadline) + 1)],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=nowhere,
            env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},
        )
        clock = _Clock(child, deadline)
        try:
            assert child.stdout is not None
            yield from _items(child.stdout, path, clock)
        finally:
            clock.stop()
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _memory(size: int) -> int:
    """Return the child's memory limit in bytes: what the file needs, and at most half of the RAM."""
    needed = MIN_MEMORY + MEMORY_A_BYTE * size
    try:
        return min(needed, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    except (AttributeError, OSError, ValueError):
        return needed


class _Clock:
    """Kills a process after its reader has waited for it for this many seconds in total."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process, self._seconds = process, seconds
        self._waited = 0.0
        self._since: float | None = None
        self._stopped = threading.Event()
        self.is_late = False
        threading.Thread(target=self._watch, daemon=True).start()

    def line(self, lines: IO[bytes]) -> bytes:
        """Return the next line and count the time until it arrives."""
        begun = self._since = time.monotonic()
        try:
            return lines.readline(MAX_LINE + 1)
        finally:
            self._since = None
            self._waited += time.monotonic() - begun

    def stop(self) -> None:
        """Stop counting."""
        self._stopped.set()

    def _watch(self) -> None:
        left = self._seconds
        while not self._stopped.wait(max(left, LOOKED_EVERY)):
            # In this order, a wait that ends right now is counted too little and never twice.
            waited, since = self._waited, self._since
            left = self._seconds - waited - (0.0 if since is None else time.monotonic() - since)
            if left <= 0:
                self.is_late = True
                self._process.kill()
                return


def _items(lines: IO[bytes], path: Path, clock: _Clock) -> Iterator[Any]:
    where = f"Pickle {str(path)!r}"
    while line := clock.line(lines):
        if len(line) > MAX_LINE:
            raise SettingsError(f"{where} has an item of more than {MAX_LINE} bytes.", CONVERT)
        found = parse_json(line, SettingsError, where)
        if "item" in found:
            yield found["item"]
        elif "error" in found:
            raise SettingsError(f"{where} cannot be read: {one_line(str(found['error']))[:200]}.", CONVERT)
        else:
            return
    reason = (
        "it took too long" if clock.is_late else ("its reader was stopped for using too much memory or time")
    )
    raise SettingsError(f"{where} cannot be read: {reason}.", CONVERT)

"""A list that torch or Python has pickled, as published sets are, read without being able to do harm.

Decision: a pickle is a program. It runs in a child process in which no name can be looked up: what is left of
the language makes lists, dictionaries, texts and numbers and nothing else. (torch's `weights_only` admits
tensors, and names that libraries register, and needs torch; this admits less and needs nothing.) What such a
pickle could still do is take memory, time and room: the child has limits on all of them, a deadline, no
environment and an empty folder to be in, and may not write a byte. What it hands over is JSON, one line an
item, read here like any stranger's file. The deadline is for the child: time that the caller takes between
two items (a teacher may be asked about each) does not count. On Windows and macOS nothing limits the child's
memory.
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
"""Of the child, for a byte of the file: texts as Python keeps them, with the lists that hold them."""
CONVERT = "Where you trust it, load it with torch yourself, and save its list as JSON."


def pickled_items(path: Path, seconds: float | None = None) -> Iterator[Any]:
    """The items of a pickled list, as plain values; an item that is none of these is None. Raises
    SettingsError for a pickle that names anything, a damaged one, and one that takes too much memory, or more
    than `seconds` (as many as its size needs, if not given) to be read."""
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
    """Bytes that the child may have: what the file needs, and at most half of the machine's."""
    wanted = MIN_MEMORY + MEMORY_A_BYTE * size
    try:
        return min(wanted, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    except (AttributeError, OSError, ValueError):
        return wanted


class _Clock:
    """Ends a process that has let its reader wait for so many seconds in all."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process, self._seconds = process, seconds
        self._waited = 0.0
        self._since: float | None = None
        self._stopped = threading.Event()
        self.is_late = False
        threading.Thread(target=self._watch, daemon=True).start()

    def line(self, lines: IO[bytes]) -> bytes:
        """The next line; what it takes to come is counted."""
        begun = self._since = time.monotonic()
        try:
            return lines.readline(MAX_LINE + 1)
        finally:
            self._since = None
            self._waited += time.monotonic() - begun

    def stop(self) -> None:
        """Nothing is counted any more."""
        self._stopped.set()

    def _watch(self) -> None:
        left = self._seconds
        while not self._stopped.wait(max(left, LOOKED_EVERY)):
            # In this order a wait that ends here and now is counted too little, never twice.
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
            raise SettingsError(f"{where} cannot be read ({one_line(str(found['error']))[:200]}).", CONVERT)
        else:
            return
    reason = "it took too long" if clock.is_late else "its reader was ended, for memory or time"
    raise SettingsError(f"{where} cannot be read ({reason}).", CONVERT)

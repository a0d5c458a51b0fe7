"""A list that torch or Python has pickled, as published sets are, read without being able to do harm.

Decision: a pickle is a program. It runs in a child process in which no name can be looked up: what is left of
the language makes lists, dictionaries, texts and numbers and nothing else. (torch's `weights_only` admits
tensors, and names that libraries register, and needs torch; this admits less and needs nothing.) What such a
pickle could still do is take memory, time and room: the child has limits on all of them, a deadline, no
environment and an empty folder to be in, and may not write a byte. What it hands over is JSON, one line an
item, read here like any stranger's file. On Windows nothing limits the child's memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ...backend.errors import SettingsError
from ...backend.files.bounded_reader import opened, parse_json

ENDINGS = (".pt", ".pth", ".pkl", ".pickle")
CHILD = Path(__file__).with_name("pickle_child.py")
MAX_FILE = 4 * 1024**3
MAX_LINE = 4 * 1024 * 1024
BYTES_A_SECOND = 2 * 1024 * 1024
LEAST_SECONDS = 30.0
LEAST_MEMORY = 512 * 1024**2
MEMORY_A_BYTE = 12
"""Of the child, for a byte of the file: texts as Python keeps them, with the lists that hold them."""
CONVERT = "Where you trust it, load it with torch yourself, and save its list as JSON."


def pickled_items(path: Path, seconds: float | None = None) -> Iterator[Any]:
    """The items of a pickled list, as plain values; an item that is none of these is None. Raises
    SettingsError for a pickle that names anything, a damaged one, and one that takes too long or too much."""
    with opened(path, SettingsError, "File") as file, tempfile.TemporaryDirectory() as nowhere:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE:
            raise SettingsError(f"File {str(path)!r} is larger than {MAX_FILE} bytes.", CONVERT)
        deadline = seconds or LEAST_SECONDS + size / BYTES_A_SECOND
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(CHILD), str(_memory(size)), str(int(deadline) + 1)],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=nowhere,
            env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},
        )
        late = threading.Event()
        clock = threading.Timer(deadline, lambda: (late.set(), child.kill()))
        clock.start()
        try:
            assert child.stdout is not None
            yield from _items(child.stdout, path, late)
        finally:
            clock.cancel()
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _memory(size: int) -> int:
    """Bytes that the child may have: what the file needs, and at most half of the machine's."""
    wanted = LEAST_MEMORY + MEMORY_A_BYTE * size
    try:
        return min(wanted, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    except (AttributeError, OSError, ValueError):
        return wanted


def _items(lines: IO[bytes], path: Path, late: threading.Event) -> Iterator[Any]:
    where = f"Pickle {str(path)!r}"
    while line := lines.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise SettingsError(f"{where} has an item of more than {MAX_LINE} bytes.", CONVERT)
        found = parse_json(line, SettingsError, where)
        if "item" in found:
            yield found["item"]
        elif "error" in found:
            raise SettingsError(f"{where} cannot be read ({str(found['error'])[:200]}).", CONVERT)
        else:
            return
    reason = "it took too long" if late.is_set() else "its reader was ended, for memory or time"
    raise SettingsError(f"{where} cannot be read ({reason}).", CONVERT)

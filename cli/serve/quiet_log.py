"""Limits equal warnings in the log of a service to a few per minute, so that clients cannot fill it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MAX_REPEATS, SECONDS = 10, 60.0
MAX_KINDS = 1000


@contextmanager
def few_repeats() -> Iterator[None]:
    """Limit equal warnings of all loggers inside the context."""
    # Each handler sees every record, so each one counts by itself.
    limits = [(handler, FewRepeats()) for handler in logging.getLogger().handlers]
    for handler, limit in limits:
        handler.addFilter(limit)
    try:
        yield
    finally:
        for handler, limit in limits:
            handler.removeFilter(limit)


class FewRepeats(logging.Filter):
    """Passes at most `most` equal warnings or errors in `seconds`.

    The next one reports how many were left out.

    Messages are equal if they come from the same logger and were written with the same text, before their
    values are put in.
    """

    def __init__(self, most: int = MAX_REPEATS, seconds: float = SECONDS) -> None:
        super().__init__()
        self._most, self._seconds = most, seconds
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        if record.levelno < logging.WARNING:
            return True
        kind = record.name, str(record.msg)
        with self._lock:
            began, count = self._seen.get(kind, (record.created, 0))
            left_out = 0
            if record.created >= began + self._seconds:
                began, left_out, count = record.created, max(0, count - self._most), 0
            if kind not in self._seen and len(self._seen) >= MAX_KINDS:
                self._seen.clear()
            self._seen[kind] = began, count + 1
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} more like it were left out.)", ()
        return count < self._most

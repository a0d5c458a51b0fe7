"""Limits the parts in which a critic's text is sent to the browser while it is generated."""

from __future__ import annotations

import json

from .clipped_text import clip

WORDS_BYTES = 4500
WORDS_MESSAGES = 16
FIRST_PAUSE = 0.25
LONGER = 1.3


class StreamedText:
    """Collects a critic's text and decides when to send which part."""

    def __init__(self) -> None:
        self._all, self._messages, self._bytes = "", 0, 0
        self._next, self._pause = 0.0, FIRST_PAUSE
        self.sent = 0

    @property
    def sent_text(self) -> str:
        """The text sent so far."""
        return self._all[: self.sent]

    def add(self, text: str, now: float) -> str:
        """Add text and return the part to send now, often ""."""
        self._all += text
        if now < self._next or self._messages >= WORDS_MESSAGES or self._bytes >= WORDS_BYTES:
            return ""
        fresh = self._all[self.sent :]
        due = clip(fresh, WORDS_BYTES - self._bytes)
        self.sent += len(fresh) if due == fresh else len(due)
        self._messages += 1
        self._bytes += WORDS_BYTES if due != fresh else len(json.dumps(due))
        self._next, self._pause = now + self._pause, self._pause * LONGER
        return due

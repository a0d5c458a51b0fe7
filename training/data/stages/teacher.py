"""A chat model that answers questions about data, cached so that an interrupted call asks nothing again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ....backend.chat.protocol import ChatModel, Message, Reply, ReplySettings
from ....backend.errors import ChatError
from ....backend.pictures import Picture
from ...content_cache import ContentCache, key_of

GIVE_UP = 5
"""Consecutive questions without an answer after which the teacher counts as unavailable."""


class Teacher:
    """Asks `chat`, from several threads; answers are cached next to the data folder `out`."""

    def __init__(self, chat: ChatModel, out: Path) -> None:
        """Open the cache.

        Raises:
            SettingsError: The file cannot be used.
        """
        self.chat, self._cache = chat, ContentCache(out.with_name(f"{out.name}.teacher.sqlite"))
        self._lock, self._failed = threading.Lock(), 0

    def close(self) -> None:
        """Close the cache."""
        self._cache.close()

    def answer(
        self,
        content: Sequence[str | Picture],
        settings: ReplySettings,
        read: Callable[[Reply], str],
    ) -> str | None:
        """Return the text that `read` takes from the reply, or None if there was no answer.

        `read` may ask again with `chat`.

        Raises:
            ChatError: The teacher failed GIVE_UP times in a row, which is an outage.
            SettingsError: The cache cannot be written.
        """
        parts = [one.digest if isinstance(one, Picture) else one for one in content]
        key = key_of("teacher", self.chat.identity, *parts)
        kept = self._cache.text(key)
        if kept is not None:
            return kept
        try:
            text = read(self.chat.reply([Message(role="user", content=tuple(content))], settings))
        except ChatError:
            with self._lock:
                self._failed += 1
                if self._failed >= GIVE_UP:
                    raise
            return None
        with self._lock:
            self._failed = 0
        self._cache.keep_text(key, text)
        return text

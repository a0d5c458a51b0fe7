"""Cache of generated images and their scores, by content.

The same prompt, image, seed and generator is never generated or scored twice. The cache is one SQLite file in
write-ahead mode: a process that is killed loses nothing that was stored, and several ranks can share it. A
key includes everything that determines the value (also identities), so entries never become outdated. A
caller that needs a value which another one is computing waits for it (`SingleFlight`): the eight answers of a
group ask at the same time, and a plain cache would miss eight times. Damaged entries are computed again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Hashable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from ..backend.core.errors import PictureError, SettingsError
from ..backend.core.pictures import Picture
from ..backend.core.types import Score

SCHEMA = 1
SEALED = re.compile("[0-9a-f]{16} ")
BUSY_SECONDS = 60.0

Made = TypeVar("Made")


def key_of(*parts: str | int | None) -> str:
    """Return 32 hex digits over the parts, which are kept separate; None differs from the empty text."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _sealed(text: str) -> str:
    """Return a text after its digest."""
    return f"{hashlib.blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()} {text}"


def _checked(row: object) -> str | None:
    """Return the text of `_sealed`, None if it was changed. A text of an earlier version has no digest."""
    if not isinstance(row, str):
        return None
    text = row[17:] if SEALED.match(row) else row
    return text if row in (text, _sealed(text)) else None


class ContentCache:
    """Images, scores and texts by key in one file; safe for several threads and processes of one machine."""

    def __init__(self, path: Path, what: str = "Reward cache") -> None:
        """Open or create the file.

        Args:
            path: The file.
            what: Name of the cache in errors.

        Raises:
            SettingsError: The file is not such a cache or cannot be written.
        """
        self.path, self._what = path, what
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
            with self._lock, self._base:
                self._base.execute("PRAGMA journal_mode=WAL")
                self._base.execute("PRAGMA synchronous=NORMAL")
                (version,) = self._base.execute("PRAGMA user_version").fetchone()
                if version not in (0, SCHEMA):
                    raise SettingsError(
                        f"{what} {str(path)!r} has version {version}, but this version reads {SCHEMA}.",
                        "Give another file, or delete this one.",
                    )
                self._base.execute(
                    "CREATE TABLE IF NOT EXISTS pictures (key TEXT PRIMARY KEY, digest TEXT, png BLOB) "
                    "WITHOUT ROWID"
                )
                self._base.execute(
                    "CREATE TABLE IF NOT EXISTS scores (key TEXT PRIMARY KEY, score TEXT) WITHOUT ROWID"
                )
                self._base.execute(f"PRAGMA user_version={SCHEMA}")
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    def picture(self, key: str) -> Picture | None:
        """Return the image under this key, or None if it is missing or damaged."""
        row = self._row("SELECT digest, png FROM pictures WHERE key = ?", key)
        if row is None:
            return None
        try:
            picture = Picture.stored(row[1], "A cached image")
        except (PictureError, TypeError):
            return None
        return picture if picture.digest == row[0] else None

    def keep_picture(self, key: str, picture: Picture) -> None:
        """Store an image, replacing a damaged one.

        Raises:
            SettingsError: The file cannot be written.
        """
        self._store("INSERT OR REPLACE INTO pictures VALUES (?, ?, ?)", key, picture.digest, picture.png())

    def score(self, key: str) -> Score | None:
        """Return the score under this key, or None if it is missing or damaged."""
        row = self._row("SELECT score FROM scores WHERE key = ?", key)
        try:
            return None if row is None else Score.model_validate_json(_checked(row[0]) or "")
        except (ValidationError, TypeError):
            return None

    def keep_score(self, key: str, score: Score) -> None:
        """Store a score.

        Raises:
            SettingsError: The file cannot be written.
        """
        self._store("INSERT OR REPLACE INTO scores VALUES (?, ?)", key, _sealed(score.model_dump_json()))

    def text(self, key: str) -> str | None:
        """Return the text under this key, or None if it is missing or damaged."""
        row = self._row("SELECT score FROM scores WHERE key = ?", f"text {key}")
        return None if row is None else _checked(row[0])

    def keep_text(self, key: str, text: str) -> None:
        """Store a text under this key; it does not replace a score.

        Raises:
            SettingsError: The file cannot be written.
        """
        self._store("INSERT OR REPLACE INTO scores VALUES (?, ?)", f"text {key}", _sealed(text))

    def close(self) -> None:
        """Close the file; the cache cannot be used afterwards."""
        with self._lock:
            self._base.close()

    def _row(self, query: str, *values: str) -> tuple | None:
        try:
            with self._lock:
                return self._base.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _store(self, query: str, *values: str | bytes) -> None:
        try:
            with self._lock, self._base:
                self._base.execute(query, values)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> SettingsError:
        return SettingsError(
            f"{self._what} {str(self.path)!r} cannot be used: {error}.",
            "Free some disk space, or delete the file; its content will be computed again.",
        )


class SingleFlight(Generic[Made]):
    """Computes each key once at a time: the first caller computes the value, the others wait for its future.

    Use it from one event loop. Values are forgotten once they are delivered; the cache keeps them.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Made]] = {}

    def claim(self, key: Hashable) -> tuple[asyncio.Future[Made], bool]:
        """Return the future of this key's value, and whether the caller must compute it with `land`."""
        under_way = self._under_way.get(key)
        if under_way is not None:
            return under_way, False
        future: asyncio.Future[Made] = asyncio.get_running_loop().create_future()
        self._under_way[key] = future
        return future, True

    def land(self, key: Hashable, made: Made) -> None:
        """Deliver the value to all who wait."""
        future = self._under_way.pop(key)
        if not future.done():
            future.set_result(made)

    def fail(self, key: Hashable, error: BaseException) -> None:
        """Deliver the error to all who wait."""
        future = self._under_way.pop(key)
        if not future.done():
            future.set_exception(error)
            # If no caller waits, asyncio would otherwise warn about an exception that was never retrieved.
            future.exception()

"""What was drawn and scored, cached by content: the same prompt, image, seed and generator is never drawn or
scored twice.

Decisions. One SQLite file in write-ahead mode: a process killed at any moment loses nothing that was stored,
several ranks may share it, and no file a picture has to be made. A key names everything that determines the
value (identities included), so nothing in it is ever out of date. Who asks for what somebody else is making
waits for that one (`SingleFlight`): the eight siblings of a group ask at the same moment, and a plain cache
would miss eight times. A damaged entry is made anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import threading
from collections.abc import Hashable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from ..backend.errors import PictureError, SettingsError
from ..backend.pictures import Picture
from ..backend.types import Score

SCHEMA = 1
BUSY_SECONDS = 60.0

Made = TypeVar("Made")


def key_of(*parts: str | int | None) -> str:
    """32 hex digits over the parts, each distinct from its neighbours; None is distinct from the empty
    text."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


class ContentCache:
    """Pictures and scores by key, in one file; safe to use from several threads and processes of one
    machine."""

    def __init__(self, path: Path, what: str = "Reward cache") -> None:
        """Open or make the file; raises SettingsError, which calls it `what`, if it is not such a cache or
        cannot be written."""
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
                        f"{what} {str(path)!r} is of version {version}; {SCHEMA} is read here.",
                        "Give another file.",
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
        """The picture under this key; None if there is none, or it does not match its digest."""
        row = self._row("SELECT digest, png FROM pictures WHERE key = ?", key)
        if row is None:
            return None
        try:
            picture = Picture.stored(row[1], "A cached picture")
        except (PictureError, TypeError):
            return None
        return picture if picture.digest == row[0] else None

    def keep_picture(self, key: str, picture: Picture) -> None:
        """Store a picture, over a damaged one if there is one; raises SettingsError (disk full...)."""
        self._store("INSERT OR REPLACE INTO pictures VALUES (?, ?, ?)", key, picture.digest, picture.png())

    def score(self, key: str) -> Score | None:
        """The score under this key; None if there is none, or it cannot be read."""
        row = self._row("SELECT score FROM scores WHERE key = ?", key)
        if row is None:
            return None
        try:
            return Score.model_validate_json(row[0])
        except (ValidationError, TypeError):
            return None

    def keep_score(self, key: str, score: Score) -> None:
        """Store a score; raises SettingsError."""
        self._store("INSERT OR REPLACE INTO scores VALUES (?, ?)", key, score.model_dump_json())

    def text(self, key: str) -> str | None:
        """A text that was kept beside a score; None if there is none."""
        row = self._row("SELECT score FROM scores WHERE key = ?", f"text {key}")
        return row[0] if row is not None and isinstance(row[0], str) else None

    def keep_text(self, key: str, text: str) -> None:
        """Store a text beside the score of this key; raises SettingsError."""
        self._store("INSERT OR REPLACE INTO scores VALUES (?, ?)", f"text {key}", text)

    def counts(self) -> tuple[int, int]:
        """How many pictures and scores are kept."""
        pictures = self._row("SELECT count(*) FROM pictures")
        scores = self._row("SELECT count(*) FROM scores WHERE key NOT LIKE 'text %'")
        return (pictures or (0,))[0], (scores or (0,))[0]

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
            f"{self._what} {str(self.path)!r} cannot be used ({error}).",
            "Make room, or delete it: what it holds is then made anew.",
        )


class SingleFlight(Generic[Made]):
    """One making of a key at a time: who claims it first makes it, the others wait for its future.

    To be used from one event loop; what came out is forgotten once it has landed (the cache keeps it).
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Made]] = {}

    def claim(self, key: Hashable) -> tuple[asyncio.Future[Made], bool]:
        """The future of this key's value, and whether the caller has to make it and call `land` or `fail`."""
        under_way = self._under_way.get(key)
        if under_way is not None:
            return under_way, False
        future: asyncio.Future[Made] = asyncio.get_running_loop().create_future()
        self._under_way[key] = future
        return future, True

    def land(self, key: Hashable, made: Made) -> None:
        """Give the value to all who wait."""
        future = self._under_way.pop(key)
        if not future.done():
            future.set_result(made)

    def fail(self, key: Hashable, error: BaseException) -> None:
        """Give the error to all who wait."""
        future = self._under_way.pop(key)
        if not future.done():
            future.set_exception(error)
            # Nobody may be waiting, which is no reason for a warning about an error that nobody saw.
            future.exception()

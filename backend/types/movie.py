"""Videos as values: the bytes of an MP4 file with a content digest.

A movie is identified by its bytes, because encoding is lossy. In JSON it is its digest alone, as images are
(pictures.py); the code that reads the JSON says where the bytes are (validation context `{"movies": digest ->
Movie}`). A movie in a file is read on first use and never kept in RAM.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ..pictures import WithDigest

MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of one movie."""


class Movie(WithDigest):
    """An immutable MP4 file with a content digest (40 hex digits of BLAKE2b over its bytes)."""

    SOURCE, NOUN = "movies", "a movie"

    def __init__(self, data: bytes) -> None:
        self._read: Callable[[], bytes] = lambda: data
        self.digest = hashlib.blake2b(data, digest_size=20).hexdigest()

    @classmethod
    def in_file(cls, digest: str, read: Callable[[], bytes]) -> Movie:
        """Return a movie whose bytes are read when they are used.

        Args:
            digest: Digest of the bytes.
            read: Reads the bytes and checks them against the digest.
        """
        movie = cls.__new__(cls)
        movie.digest, movie._read = digest, read
        return movie

    @property
    def data(self) -> bytes:
        """The bytes of the file.

        Raises:
            InterleaveError: The file cannot be read again, as raised by the reader in `in_file`.
        """
        return self._read()

    def __repr__(self) -> str:
        return f"Movie({self.digest[:8]})"

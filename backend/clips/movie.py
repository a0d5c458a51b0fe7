"""Videos as values: the bytes of an MP4 file with a content digest.

A movie is identified by its bytes, because encoding is lossy. In JSON it is its digest alone, as images are
(pictures.py); the code that reads the JSON says where the bytes are (validation context `{"movies": digest ->
Movie}`). A movie in a file is read on first use and never kept in RAM.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from ..pictures import DIGEST

MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of one movie."""
MovieSource = Callable[[str], "Movie"]


class Movie:
    """An immutable MP4 file with a content digest (40 hex digits of BLAKE2b over its bytes)."""

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

    def kept_by(self, read: Callable[[], bytes]) -> None:
        """Drop the bytes from RAM. `read` then reads them."""
        self._read = read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Movie) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Movie({self.digest[:8]})"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            _validate,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda movie: movie.digest),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "pattern": DIGEST.pattern}


def _validate(value: Any, info: ValidationInfo) -> Movie:
    if isinstance(value, Movie):
        return value
    if isinstance(value, str) and DIGEST.match(value):
        source: MovieSource | None = (info.context or {}).get("movies")
        if source is not None:
            return source(value)
        raise ValueError("the digest of a movie can only be resolved with the folder that contains it")
    raise ValueError("expected a movie or the digest of a movie")

"""Small copies of a run's pictures for the browser, made when they are asked for.

Decision: as WebP of a few sizes, kept in memory for a while and by the browser for good, for a picture's name
is the digest of its pixels. Nothing is written: the folder of a run holds what the run made.
"""

from __future__ import annotations

import threading
from io import BytesIO
from pathlib import Path

from ...backend.byte_lru import ByteLRU
from ...backend.errors import SettingsError
from ...backend.journal.files import RunFiles

SIZES = (256, 512, 1024)
"""Pixels of the longer side: the least that is not smaller than what was asked for is made."""
QUALITY = 80
BUDGET = 32 * 1024 * 1024
"""Bytes of the cache."""


class Thumbnails:
    """Makes small images and caches the latest ones. `budget`: bytes of the cache."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._cached: ByteLRU[tuple[Path, str, int], bytes] = ByteLRU(budget, len)
        self._lock = threading.Lock()

    def webp(self, folder: Path, digest: str, size: int) -> bytes:
        """The picture with this digest in a run's folder, its longer side at most the next of SIZES; a
        smaller one stays as it is. Raises SettingsError if there is none, JournalError if it is damaged."""
        size = next((one for one in SIZES if one >= size), SIZES[-1])
        key = folder, digest, size
        with self._lock:
            data = self._cached.get(key)
        if data is None:
            data = _made(folder, digest, size)
            with self._lock:
                self._cached.put(key, data)
        return data


def _made(folder: Path, digest: str, size: int) -> bytes:
    picture = RunFiles(folder).read_picture(digest)
    if picture is None:
        raise SettingsError(f"There is no picture {digest!r} in the run {folder.name!r}.")
    image = picture.image.copy()
    image.thumbnail((size, size))
    buffer = BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY)
    return buffer.getvalue()


THUMBNAILS = Thumbnails()

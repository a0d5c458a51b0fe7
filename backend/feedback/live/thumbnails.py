"""Small copies of a run's images for the browser, created on request.

They are WebP of a few sizes, cached in memory, and in the browser permanently, since an image's name is the
digest of its pixels. Nothing is written: a run folder contains only results of the run.
"""

from __future__ import annotations

import threading
from io import BytesIO
from pathlib import Path

from ...errors import SettingsError
from ...journal.run_files import RunFiles
from ...machine.byte_lru import ByteLRU
from ...pictures import Picture

SIZES = (256, 512, 1024)
"""Sizes of the longer side in pixels. The smallest that is not below the requested size is used."""
QUALITY = 80
BUDGET = 32 * 1024 * 1024
"""Maximum size of the cache in bytes."""


class Thumbnails:
    """Creates small images and caches the latest ones. `budget` is the size of the cache in bytes."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._cached: ByteLRU[tuple[Path, str, int], bytes] = ByteLRU(budget, len)
        self._lock = threading.Lock()

    def webp(self, folder: Path, digest: str, size: int) -> bytes:
        """Return an image of a run as WebP, its longer side at most the next of SIZES.

        Raises:
            SettingsError: The image was not found.
            JournalError: It is damaged.
        """
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
        raise SettingsError(
            f"The image {digest!r} was not found in the run {folder.name!r}.", "Run it again."
        )
    return small_webp(picture, size)


def small_webp(picture: Picture, size: int) -> bytes:
    """Return an image as WebP with a longer side of at most `size` pixels."""
    image = picture.image.copy()
    image.thumbnail((size, size))
    buffer = BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY)
    return buffer.getvalue()


THUMBNAILS = Thumbnails()

"""Small copies of a run's pictures for the browser, made when they are asked for.

Decision: as WebP of a few sizes, kept in memory for a while and by the browser for good, for a picture's name
is the digest of its pixels. Nothing is written: the folder of a run holds what the run made.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from io import BytesIO
from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.journal.files import RunFiles

SIZES = (256, 512, 1024)
"""Pixels of the longer side: the least that is not smaller than what was asked for is made."""
QUALITY = 80
MOST_BYTES = 32 * 1024 * 1024


class Thumbnails:
    """Makes small pictures and keeps the latest, MOST_BYTES at most."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[Path, str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def webp(self, folder: Path, digest: str, size: int) -> bytes:
        """The picture with this digest in a run's folder, its longer side at most the next of SIZES; a
        smaller one stays as it is. Raises SettingsError if there is none, JournalError if it is damaged."""
        size = next((one for one in SIZES if one >= size), SIZES[-1])
        key = folder, digest, size
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        data = _made(folder, digest, size)
        with self._lock:
            if key not in self._made:
                self._made[key] = data
                self._bytes += len(data)
            while self._bytes > MOST_BYTES:
                self._bytes -= len(self._made.popitem(last=False)[1])
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

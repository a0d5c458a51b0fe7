"""The folder an export is written to: every file appears whole or not at all, every picture once.

Decision: a file is written beside its place and moved there, so a reader never meets half a page and a failed export
leaves the last good one. Pictures are named by the exporter and kept apart by their digest.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..errors import JournalError
from ..pictures import Picture


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, making its folder; raises JournalError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(name, 0o644)  # mkstemp's files are private to their owner, exports are to be looked at
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise JournalError(f"{str(path)!r} cannot be written ({error.strerror or error}).") from error


class PictureFolder:
    """PNG files in a sub-folder of an export; a picture that was added before keeps its first name."""

    def __init__(self, folder: Path, name: str = "images") -> None:
        self._folder = folder
        self._name = name
        self._paths: dict[str, str] = {}

    def add(self, picture: Picture, stem: str) -> str:
        """Write the picture as `stem`.png unless it is there already; returns its path relative to the export."""
        if picture.digest not in self._paths:
            relative = f"{self._name}/{stem}.png"
            write_whole(self._folder / relative, picture.png())
            self._paths[picture.digest] = relative
        return self._paths[picture.digest]

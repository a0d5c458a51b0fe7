"""The folder an export is written to: every file appears whole or not at all, every picture once.

Decision: a run's folder may come from a stranger, and exports are written into it by default. So a file takes
the place of a link that lies there, and a folder of pictures that is a link is refused: nothing is written
anywhere else. Pictures are named by the exporter and kept apart by their digest.
"""

from __future__ import annotations

from pathlib import Path

from ...errors import JournalError
from ...files import atomic
from ...pictures import Picture


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, making its folder; raises JournalError."""
    atomic.write_bytes(path, data, JournalError, "Export")


class PictureFolder:
    """PNG files in a sub-folder of an export; a picture that was added before keeps its first name."""

    def __init__(self, folder: Path, name: str = "images") -> None:
        self._folder = folder
        self._name = name
        self._paths: dict[str, str] = {}

    def add(self, picture: Picture, stem: str) -> str:
        """Write the picture as `stem`.png unless it is there already; returns its path relative to the
        export."""
        folder = self._folder / self._name
        if folder.is_symlink():
            raise JournalError(
                f"{str(folder)!r} is a link, through which no pictures are written.",
                "Remove the link, or choose another folder.",
            )
        if picture.digest not in self._paths:
            relative = f"{self._name}/{stem}.png"
            write_whole(self._folder / relative, picture.png())
            self._paths[picture.digest] = relative
        return self._paths[picture.digest]

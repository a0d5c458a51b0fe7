"""A folder of rows with their images: which one may be replaced, and how pictures get into it.

Decision: images lie there under their digests, each once, so that rows of several kinds share them and the
folder can be moved.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.pictures import Picture

IMAGES = "images"


def check_place(out: Path, ours: Collection[str]) -> None:
    """Raise SettingsError if `out` cannot be replaced by a folder of these names, or holds anything else."""
    try:
        found = {entry.name for entry in out.iterdir()} if out.is_dir() else set()
    except OSError as error:
        raise SettingsError(f"{str(out)!r} cannot be used ({error.strerror or error}).") from error
    if out.is_symlink() or (out.exists() and not out.is_dir()) or found - {*ours, IMAGES}:
        raise SettingsError(f"{str(out)!r} holds something else.", "Give another --out.")


def keep_picture(picture: Picture, folder: Path) -> str:
    """Write the picture below `folder` unless it is there; returns its path relative to the folder."""
    name = f"{IMAGES}/{picture.digest}.png"
    if not (folder / name).exists():
        (folder / name).write_bytes(picture.png())
    return name

"""Folder of training data that is being written: rows, their images and a report.

It appears only when complete, and replaces only an earlier folder of this kind. Images are named by their
digest and stored once, so that rows of several kinds share them and the folder can be moved.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from ....backend.errors import PictureError, SettingsError
from ....backend.files.atomic import writing_folder
from ....backend.files.bounded_reader import read_bytes
from ....backend.pictures import MAX_BYTES, Picture

IMAGES, REPORT = "images", "report.json"
BY_THE_WAY = {".DS_Store", "Thumbs.db", "desktop.ini"}
"""Files that desktops create in folders."""


class DataFolder:
    """The folder `path`, in which the images are next to the rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / IMAGES).mkdir()

    def keep(self, picture: Picture) -> str:
        """Store an image once, and return its path in the folder."""
        name = image_name(picture.digest)
        if not (self.path / name).exists():
            (self.path / name).write_bytes(picture.png())
        return name

    def copy(self, file: Path, digest: str) -> None:
        """Store the file of an image with this digest once.

        Raises:
            PictureError: The file cannot be read.
        """
        target = self.path / image_name(digest)
        if not target.exists():
            target.write_bytes(read_bytes(file, MAX_BYTES, PictureError, "Image"))

    def report(self, report: BaseModel) -> None:
        """Write the report."""
        text = json.dumps(report.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=False)
        (self.path / REPORT).write_text(text + "\n", encoding="utf-8")


def image_name(digest: str) -> str:
    """Return the path of an image in a data folder."""
    return f"{IMAGES}/{digest}.png"


def check_place(out: Path, files: Collection[str]) -> None:
    """Check that `out` is a new folder, or one of training data with these files.

    Raises:
        SettingsError: It contains anything else, or cannot be replaced by a folder.
    """
    if out.name in ("", "..") or out.is_symlink():
        raise SettingsError(
            f"{str(out)!r} cannot be replaced by a folder.",
            "Give a new folder as --out, with a name of its own.",
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        found = {entry.name for entry in out.iterdir()} - BY_THE_WAY if out.is_dir() else set()
    except OSError as error:
        raise SettingsError(
            f"{str(out)!r} cannot be used: {error.strerror or error}.", "Give another --out."
        ) from error
    others = found - {*files, IMAGES, REPORT}
    # A report alone does not make it a data folder: other files in it would be deleted.
    if (out.exists() and not out.is_dir()) or others or (found and REPORT not in found):
        other = f" ({min(others)!r})" if others else ""
        raise SettingsError(f"{str(out)!r} contains other files{other}.", "Give another --out.")


@contextmanager
def data_folder(out: Path, files: Collection[str]) -> Iterator[DataFolder]:
    """Yield a new folder to fill, which then replaces `out`.

    Raises:
        SettingsError: `out` contains other files than those of training data, or cannot be written.
    """
    check_place(out, files)
    with writing_folder(out, SettingsError, "Data folder") as temporary:
        yield DataFolder(temporary)

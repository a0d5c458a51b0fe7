"""Encodes images and writes the files of an export: every file completely or not at all, every image once.

A run folder may come from a stranger, and exports are written into it by default. A file therefore replaces a
link of its name, and an image folder that is a link is rejected, so nothing is written elsewhere. Images are
named by the exporter and identified by their digest.

The graph that made a story can be embedded in an image, so that dragging the image into ComfyUI opens the
graph. The graph is stored where ComfyUI's own savers put it, because its front end looks there: text chunks
in a PNG. In a WebP, EXIF camera fields: the prompt as Model, everything else from Make downwards, each with
its name before a colon. ComfyUI's front end does not read GIFs, so the pack's own script reads the graph from
a GIF comment (web/exports.js).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from ...core.errors import JournalError
from ...core.files import atomic
from ...core.pictures import Picture
from ...core.types.clip import Movie

STORED = ("", ".png", ".jpg")
JPEG: dict[str, Any] = {"quality": 92, "subsampling": 0}


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """Return the content of an image file of a kind of Pillow, such as "PNG"."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def smaller_file(image: Image.Image) -> tuple[str, bytes]:
    """Return extension and content of an image file: ".png", or ".jpg" of high quality if smaller."""
    files = (".png", encoded(image, "PNG", compress_level=6)), (".jpg", encoded(image, "JPEG", **JPEG))
    return min(files, key=lambda file: len(file[1]))


def fitted(size: tuple[int, int], width: float, height: float) -> tuple[int, int]:
    """Return the size of an image that is scaled to fit into `width` and `height`, in pixels."""
    scale = min(width / size[0], height / size[1])
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def write_whole(path: Path, data: bytes) -> Path:
    """Write a file atomically, create its folder, and return its path.

    Raises:
        JournalError: The file cannot be written.
    """
    atomic.write_bytes(path, data, JournalError, "Export")
    return path


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a ZIP archive of files by name, with a fixed date: the same files give the same archive.

    Images and files without an extension are stored, all others compressed.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            if Path(name).suffix not in STORED:
                entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return buffer.getvalue()


IMAGES = "images"


class PictureFolder:
    """PNG and MP4 files in a subfolder of an export. An image that is added twice keeps its first name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[str, str] = {}

    def add(self, picture: Picture, stem: str) -> str:
        """Write the image as `stem`.png, unless it was added before.

        Returns:
            Path relative to the export.

        Raises:
            JournalError: The folder is a link or cannot be written.
        """
        self._check()
        if picture.digest not in self._paths:
            relative = f"{IMAGES}/{stem}.png"
            write_whole(self._folder / relative, picture.png())
            self._paths[picture.digest] = relative
        return self._paths[picture.digest]

    def add_movie(self, movie: Movie, stem: str) -> str:
        """Write a movie as `stem`.mp4, and return its path relative to the export.

        Raises:
            JournalError: The folder is a link or cannot be written, or the movie cannot be read.
        """
        self._check()
        relative = f"{IMAGES}/{stem}.mp4"
        write_whole(self._folder / relative, movie.data)
        return relative

    def _check(self) -> None:
        folder = self._folder / IMAGES
        if folder.is_symlink():
            raise JournalError(
                f"Cannot write images to {str(folder)!r}: it is a link.",
                "Remove the link, or choose another folder.",
            )


MODEL, MAKE = 0x0110, 0x010F
PROMPT = "prompt"
GIF_MARK = "interleave-thinker graph "


def png_with(image: Image.Image, metadata: Mapping[str, str]) -> bytes:
    """Return the image as a PNG file with these texts embedded."""
    chunks = PngInfo()
    for name, text in metadata.items():
        chunks.add_text(name, text)
    return encoded(image, "PNG", compress_level=4, pnginfo=chunks)


def exif_of(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return Pillow's options to embed these texts in a WebP. Empty if there are none."""
    exif = Image.Exif()
    place = MAKE
    for name, text in metadata.items():
        if name == PROMPT:
            exif[MODEL] = f"{name}:{text}"
        else:
            exif[place] = f"{name}:{text}"
            place -= 1
    return {"exif": exif.tobytes()} if metadata else {}


def gif_comment(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return Pillow's options to embed these texts in a GIF. Empty if there are none."""
    if not metadata:
        return {}
    return {"comment": (GIF_MARK + json.dumps(dict(metadata))).encode("ascii")}

"""Reads HEIC files, in which phones store photographs, with pillow-heif if it is installed."""

from __future__ import annotations

from typing import IO

from PIL import Image

from ..errors import PictureError

START = 64
"""Bytes at the beginning of a file that identify its format."""
BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis")
SHARED_BRANDS = (b"mif1", b"msf1")
"""Brands shared with AVIF files. The list of compatible brands after them decides."""


def is_heic(start: bytes) -> bool:
    """Return whether a file with this beginning is HEIC."""
    brand = start[8:12]
    if start[4:8] != b"ftyp":
        return False
    return brand in BRANDS or (brand in SHARED_BRANDS and any(one in start[12:] for one in BRANDS))


def opened_heic(stream: IO[bytes], where: str, most: int) -> Image.Image:
    """Return the upright image of a HEIC file.

    Raises:
        PictureError: pillow-heif is not installed, or the file has no image, or more than `most` pixels.
    """
    try:
        from pillow_heif import open_heif  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise PictureError(
            f"{where} is a HEIC image, which requires the package pillow-heif.",
            "Install it (pip install pillow-heif), or save the image as JPEG.",
        ) from error
    try:
        found = open_heif(stream)
        width, height = found.size
    except IndexError as error:
        raise PictureError(
            f"{where} is not a readable image (the HEIC file does not contain an image)."
        ) from error
    check_pixels(width, height, where, most)
    image: Image.Image = found.to_pillow()
    image.format = "HEIF"
    return image


def check_pixels(width: int, height: int, where: str, most: int) -> None:
    """Raise PictureError for an image of more than `most` pixels."""
    if width * height > most:
        raise PictureError(
            f"{where} has {width}x{height} pixels; the maximum is {most} in total.", "Scale it down first."
        )

"""HEIC files, as telephones store photographs, read with pillow-heif where it is installed."""

from __future__ import annotations

from typing import IO

from PIL import Image

from ..errors import PictureError

START = 64
"""Bytes at the beginning of a file that identify its format."""
BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis")
SHARED_BRANDS = (b"mif1", b"msf1")
"""Brands that AVIF files may have too; the list of compatible brands after them decides."""


def is_heic(start: bytes) -> bool:
    """Return whether a file that starts like this is HEIC."""
    brand = start[8:12]
    if start[4:8] != b"ftyp":
        return False
    return brand in BRANDS or (brand in SHARED_BRANDS and any(one in start[12:] for one in BRANDS))


def opened_heic(stream: IO[bytes], where: str, most: int) -> Image.Image:
    """Return the image of a HEIC file, upright.

    Raises:
        PictureError: pillow-heif is not installed, or there is no image, or it has more than `most` pixels.
    """
    try:
        from pillow_heif import open_heif  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise PictureError(
            f"{where} is a HEIC image, which cannot be read without the package pillow-heif.",
            "Install it (pip install pillow-heif), or save the image as JPEG.",
        ) from error
    try:
        found = open_heif(stream)
        width, height = found.size
    except IndexError as error:
        raise PictureError(
            f"{where} is not a readable image (it is a HEIC file without an image)."
        ) from error
    check_pixels(width, height, where, most)
    image: Image.Image = found.to_pillow()
    image.format = "HEIF"
    return image


def check_pixels(width: int, height: int, where: str, most: int) -> None:
    """Raise PictureError for an image of more than `most` pixels."""
    if width * height > most:
        raise PictureError(
            f"{where} is {width}x{height} pixels; at most {most} are read.", "Scale it down first."
        )

"""Image files decoded into upright sRGB, whatever a camera or a stranger put into them.

Decision: Pillow reads, in the formats that are listed and within a number of pixels; all that it can raise
for a damaged file is one PictureError. Transparent areas become white, as the critic's blank page is. A JPEG
photograph of more pixels is scaled by 2, 4 or 8 while it is decoded, which takes no more memory than a small
one; other formats have no such way, and are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO, cast

from PIL import ExifTags, Image, ImageChops, JpegImagePlugin, UnidentifiedImageError

from ..errors import PictureError
from .color_profiles import in_srgb
from .heic import START, check_pixels, is_heic, opened_heic

MAX_PIXELS = 50_000_000
"""As many as the largest photographs of telephones have; twice that in memory is 400 MB."""
MAX_SCALED_PIXELS = 256_000_000
"""Pixels of a JPEG that is scaled while it is decoded: telephones have up to 200 million."""
JPEG_START = b"\xff\xd8\xff"
JPEG_SCALES = (2, 4, 8)
MAX_GREY = 0xFFFF
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
"""Kinds of image files that are read. Pillow knows more, and starts a program of the machine for some
(EPS)."""

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What sets an image upright, by its EXIF orientation (EXIF 2.3, tag 0x0112; 1 is upright)."""

Ends = tuple[int, int]


@contextmanager
def reading_image(
    stream: IO[bytes], where: str, most: int = MAX_PIXELS, scaled: bool = True
) -> Iterator[Image.Image]:
    """The image in a stream, not decoded yet; whatever is wrong with it, also while it is decoded, is a
    PictureError. `scaled`: a large JPEG is made smaller; its size is then the smaller one."""
    try:
        with _opened(stream, where, most) as image:
            if scaled and isinstance(image, JpegImagePlugin.JpegImageFile):
                _scale(image, stream, most)
            width, height = image.size
            check_pixels(width, height, where, most)
            yield image
    except (
        UnidentifiedImageError,
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        RuntimeError,
        struct.error,
        Image.DecompressionBombError,
    ) as error:
        reason = str(error).replace(repr(stream), "the file")
        raise PictureError(f"{where} is not a readable image ({reason}).") from error


def _opened(stream: IO[bytes], where: str, most: int) -> Image.Image:
    start = stream.read(START)
    stream.seek(0)
    if start.startswith(JPEG_START):
        # Image.open has a limit of its own, for the whole process.
        return JpegImagePlugin.JpegImageFile(stream)
    if is_heic(start):
        return opened_heic(stream, where, most)
    return Image.open(stream, formats=_formats())


def _scale(image: JpegImagePlugin.JpegImageFile, stream: IO[bytes], most: int) -> None:
    """Have a JPEG of more than `most` pixels decoded at a half, a quarter or an eighth of its sides."""
    width, height = image.size
    # The decoder holds all of an image with several scans in memory, whatever the scale.
    if not most < width * height <= MAX_SCALED_PIXELS or not _has_one_scan(image, stream):
        return
    for scale in JPEG_SCALES:
        if -(-width // scale) * -(-height // scale) <= most:
            image.draft(None, (width // scale, height // scale))
            return


def _has_one_scan(image: JpegImagePlugin.JpegImageFile, stream: IO[bytes]) -> bool:
    """Whether the first scan of an opened JPEG has all of its channels, and all of their precision."""
    # Pillow has read up to the end of the scan's header, which begins with its length and its channels.
    after, length = stream.tell(), 6 + 2 * image.layers
    stream.seek(after - length)
    header = stream.read(3)
    stream.seek(after)
    return header == struct.pack(">HB", length, image.layers) and not image.info.get("progressive")


@cache
def _formats() -> tuple[str, ...]:
    """Those of FORMATS that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def decoded(image: Image.Image, where: str, convert: bool = True) -> Image.Image:
    """The image upright and in mode RGB, its colors in sRGB unless `convert` is False; raises PictureError
    for grey that nobody can scale."""
    image.load()
    upright = _upright(image)
    if convert:
        upright = in_srgb(upright)
    # Pillow would write the profile into files of these pixels, which are no longer in its colors.
    upright.info.pop("icc_profile", None)
    return upright if upright.mode == "RGB" else flattened(upright, where)


def decoded_mask(image: Image.Image, where: str) -> Image.Image:
    """The image as a mask, upright and in mode RGB: white where it is transparent, as ComfyUI's mask editor
    paints; of one without transparent parts its brightness. Raises PictureError likewise."""
    image.load()
    if "A" in image.getbands() or "transparency" in image.info:
        solid = _upright(image).convert("RGBA").getchannel("A")
        if solid.getextrema() != (255, 255):
            return ImageChops.invert(solid).convert("RGB")
    return decoded(image, where).convert("L").convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    # As cameras mean it, and as everything else that shows the file turns it. Pillow's exif_transpose writes
    # the notes anew, too, and fails on those that cameras got wrong; here a damaged note is none, as in every
    # viewer.
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    except (SyntaxError, ValueError, TypeError, LookupError, OSError, struct.error):
        return image
    turn = TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def flattened(image: Image.Image, where: str) -> Image.Image:
    """The image in mode RGB, its transparent areas white; raises PictureError likewise."""
    if image.mode == "F" or image.mode.startswith("I"):
        return _of_wide_grey(image, where)
    # Transparent areas become white, as the critic's blank page is, and not black as convert() would make
    # them.
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")
        flat = Image.new("RGB", rgba.size, (255, 255, 255))
        flat.paste(rgba, mask=rgba.getchannel("A"))
        return flat
    return image.convert("RGB")


def _of_wide_grey(image: Image.Image, where: str) -> Image.Image:
    """16-bit grey as 8-bit colours by its high byte, as Pillow reads 16-bit colours: convert() would cut off
    at 255.

    Raises PictureError for numbers past 16 bits and for floating point, since neither says what is white.
    """
    whole = None if image.mode == "F" else image.convert("I")
    if whole is None or any(not 0 <= end <= MAX_GREY for end in cast(Ends, whole.getextrema())):
        raise PictureError(
            f"{where} has grey values of {'floating point' if whole is None else 'more than 16 bits'}, "
            "and nothing says which of them is white.",
            "Save it with 8 or 16 bits a channel.",
        )
    shades = [value >> 8 for value in range(MAX_GREY + 1)]
    see_through = image.info.get("transparency")
    if isinstance(see_through, int) and 0 <= see_through <= MAX_GREY:
        shades[see_through] = 255
    return whole.point(shades, "L").convert("RGB")

"""Decodes image files, including damaged and hostile ones, into upright sRGB images.

Pillow decodes a fixed list of formats with a limited number of pixels. Every exception it raises for a
damaged file becomes a PictureError. Transparent areas become white, like the blank image shown to the critic.
A larger JPEG photograph is scaled down by 2, 4 or 8 during decoding, which needs as little RAM as a small
one. Other formats cannot be scaled in this way and are rejected.

A camera or an editor may store colors in another space and name it by an ICC profile (AdobeRGB, Display P3,
CMYK of a printer). LittleCMS, which is part of Pillow, converts them to sRGB. A profile that is damaged or
does not fit the image's channels is ignored: viewers show such files as sRGB too.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO, cast

from PIL import ExifTags, Image, ImageChops, ImageCms, JpegImagePlugin, UnidentifiedImageError

from ..errors import PictureError

CHANNELS = {"RGB": "RGB", "RGBA": "RGB", "CMYK": "CMYK", "L": "GRAY", "LAB": "Lab"}
"""Color space that a profile must have, by the mode of the image."""
CLOSE = 2
"""Maximum change of a color, in levels of 255, by a profile that counts as sRGB."""
GRID = 9


def in_srgb(image: Image.Image) -> Image.Image:
    """Return the image converted to sRGB by its profile (RGB or RGBA), or unchanged if no profile applies.

    The image may be changed in place.
    """
    data = image.info.get("icc_profile")
    if not data:
        return image
    image = _with_channels(image)
    if image.mode == "LA":
        gray, transparency = image.split()
        gray.info["icc_profile"] = data
        image = in_srgb(gray).convert("RGB")
        image.putalpha(transparency)
        return image
    if image.mode not in CHANNELS:
        return image
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        space = str(getattr(profile.profile, "xcolor_space", "")).strip()
        if image.mode == "L" and space == "RGB":
            image = image.convert("RGB")
        if space != CHANNELS[image.mode]:
            return image
        return _converted(image, profile)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError, AttributeError):
        return image


def _with_channels(image: Image.Image) -> Image.Image:
    """Return the image with its colors and transparency stored in channels."""
    if image.mode in ("P", "PA") or "transparency" in image.info:
        transparent = image.mode == "PA" or "transparency" in image.info
        colors = "L" if image.mode == "L" else "RGB"
        return image.convert(colors + "A" * transparent)
    return image


def _converted(image: Image.Image, profile: ImageCms.ImageCmsProfile) -> Image.Image:
    to = image.mode if image.mode in ("RGB", "RGBA") else "RGB"
    transform = ImageCms.buildTransform(profile, ImageCms.createProfile("sRGB"), image.mode, to)
    if to == image.mode:
        if not _changes_colors(transform, image.mode):
            return image
        # A second copy of a photograph of 50 million pixels would take 200 MB.
        ImageCms.applyTransform(image, transform, inPlace=True)
        return image
    return cast(Image.Image, ImageCms.applyTransform(image, transform))


def _changes_colors(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    """Return whether the transform does more than round. Most profiles in files are sRGB."""
    levels = [round(255 * step / (GRID - 1)) for step in range(GRID)]
    colors = [(red, green, blue) for red in levels for green in levels for blue in levels]
    probe = Image.new("RGB", (len(colors), 1))
    probe.putdata(colors)
    probe = probe.convert(mode)
    before = probe.tobytes()
    ImageCms.applyTransform(probe, transform, inPlace=True)
    return any(abs(old - new) > CLOSE for old, new in zip(before, probe.tobytes(), strict=True))


MAX_PIXELS = 50_000_000
"""The largest photographs of phones have this size. Twice that in RAM is 400 MB."""
MAX_SCALED_PIXELS = 256_000_000
"""Maximum number of pixels of a JPEG that is scaled while decoding. Phones have up to 200 million."""
START = 64
"""Bytes at the beginning of a file that identify its format."""
BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis")
SHARED_BRANDS = (b"mif1", b"msf1")
"""Brands shared with AVIF files. The list of compatible brands after them decides."""
JPEG_START = b"\xff\xd8\xff"
JPEG_SCALES = (2, 4, 8)
MAX_GREY = 0xFFFF
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
"""File formats that are read. Pillow supports more, and runs an external program for some (EPS)."""

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transpositions that set an image upright, by EXIF orientation (EXIF 2.3, tag 0x0112; 1 is upright)."""

Ends = tuple[int, int]


@contextmanager
def reading_image(
    stream: IO[bytes], where: str, most: int = MAX_PIXELS, scaled: bool = True
) -> Iterator[Image.Image]:
    """Yield the image in a stream, not yet decoded.

    Args:
        stream: Image file.
        where: Name of the image for error messages.
        most: Maximum number of pixels.
        scaled: Whether to scale down a larger JPEG. The image then has the smaller size.

    Raises:
        PictureError: The file is damaged or too large, also if that shows only inside the block.
    """
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
        # Image.open has its own limit, which applies to the whole process.
        return JpegImagePlugin.JpegImageFile(stream)
    if is_heic(start):
        return opened_heic(stream, where, most)
    return Image.open(stream, formats=_formats())


def _scale(image: JpegImagePlugin.JpegImageFile, stream: IO[bytes], most: int) -> None:
    """Set up a JPEG of more than `most` pixels to be decoded at 1/2, 1/4 or 1/8 of its sides."""
    width, height = image.size
    # For a JPEG with several scans, the decoder keeps the full image in RAM at any scale.
    if not most < width * height <= MAX_SCALED_PIXELS or not _has_one_scan(image, stream):
        return
    for scale in JPEG_SCALES:
        if -(-width // scale) * -(-height // scale) <= most:
            image.draft(None, (width // scale, height // scale))
            return


def _has_one_scan(image: JpegImagePlugin.JpegImageFile, stream: IO[bytes]) -> bool:
    """Return whether the first scan of an opened JPEG has all channels at full precision."""
    # Pillow has read up to the end of the scan's header, which begins with its length and channel count.
    after, length = stream.tell(), 6 + 2 * image.layers
    stream.seek(after - length)
    header = stream.read(3)
    stream.seek(after)
    return header == struct.pack(">HB", length, image.layers) and not image.info.get("progressive")


@cache
def _formats() -> tuple[str, ...]:
    """Return the FORMATS that the installed Pillow supports."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def decoded(image: Image.Image, where: str, convert: bool = True) -> Image.Image:
    """Decode an image to upright RGB.

    Args:
        image: Image from `reading_image`.
        where: Name of the image for error messages.
        convert: Whether to convert its colors to sRGB.

    Raises:
        PictureError: The image has gray values without a defined white.
    """
    image.load()
    upright = _upright(image)
    if convert:
        upright = in_srgb(upright)
    # Otherwise Pillow would write the old profile into files of these converted pixels.
    upright.info.pop("icc_profile", None)
    return upright if upright.mode == "RGB" else flattened(upright, where)


def decoded_mask(image: Image.Image, where: str) -> Image.Image:
    """Decode an image as a mask: upright, mode RGB, white where something may change.

    Transparent areas become white, as ComfyUI's mask editor paints them. Without transparent areas, the
    brightness of the image is used.

    Raises:
        PictureError: The image has gray values without a defined white.
    """
    image.load()
    if "A" in image.getbands() or "transparency" in image.info:
        solid = _upright(image).convert("RGBA").getchannel("A")
        if solid.getextrema() != (255, 255):
            return ImageChops.invert(solid).convert("RGB")
    return decoded(image, where).convert("L").convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    # Pillow's exif_transpose also rewrites the EXIF data, and fails on the invalid data of some cameras. Here
    # invalid data is ignored, as every viewer does.
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    except (SyntaxError, ValueError, TypeError, LookupError, OSError, struct.error):
        return image
    turn = TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def flattened(image: Image.Image, where: str) -> Image.Image:
    """Return the image in mode RGB, with transparent areas white.

    Raises:
        PictureError: The image has gray values without a defined white.
    """
    if image.mode == "F" or image.mode.startswith("I"):
        return _of_wide_grey(image, where)
    # convert() alone would make transparent areas black.
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image if image.mode == "RGBA" else image.convert("RGBA")
        flat = Image.new("RGB", rgba.size, (255, 255, 255))
        flat.paste(rgba, mask=rgba.getchannel("A"))
        return flat
    return image.convert("RGB")


def _of_wide_grey(image: Image.Image, where: str) -> Image.Image:
    """Convert 16-bit gray to 8 bits by the high byte, as Pillow does for 16-bit colors.

    convert() would clip at 255.

    Raises:
        PictureError: The values exceed 16 bits or are floating point, so that white is undefined.
    """
    whole = None if image.mode == "F" else image.convert("I")
    if whole is None or any(not 0 <= end <= MAX_GREY for end in cast(Ends, whole.getextrema())):
        raise PictureError(
            f"{where} has gray values of {'floating point' if whole is None else 'more than 16 bits'}, "
            "so that white is undefined.",
            "Save it with 8 or 16 bits per channel.",
        )
    shades = [value >> 8 for value in range(MAX_GREY + 1)]
    see_through = image.info.get("transparency")
    if isinstance(see_through, int) and 0 <= see_through <= MAX_GREY:
        shades[see_through] = 255
    return whole.point(shades, "L").convert("RGB")


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

"""Converts the colors of image files to sRGB, the color space that models and screens assume.

A camera or an editor may store colors in another space and name it by an ICC profile (AdobeRGB, Display P3,
CMYK of a printer). LittleCMS, which is part of Pillow, converts them. A profile that is damaged or does not
fit the image's channels is ignored: viewers show such files as sRGB too.
"""

from __future__ import annotations

import io
from typing import cast

from PIL import Image, ImageCms

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

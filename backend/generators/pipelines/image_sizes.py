"""Sizes of the images of a pipeline."""

from __future__ import annotations

from typing import Any

from ...pictures import Picture

MAX_SOURCE_AREA = 1024 * 1024


def fit_area(size: tuple[int, int]) -> tuple[int, int]:
    """Return a size scaled down to MAX_SOURCE_AREA pixels, if it is larger."""
    width, height = size
    scale = min(1.0, (MAX_SOURCE_AREA / (width * height)) ** 0.5)
    return max(1, round(width * scale)), max(1, round(height * scale))


def default_size(pipeline: Any) -> tuple[int, int]:
    """Return the size that a pipeline generates without an explicit one."""
    side = getattr(pipeline, "default_sample_size", 128) * getattr(pipeline, "vae_scale_factor", 8)
    return side, side


def rounded(size: tuple[int, int], pipeline: Any) -> tuple[int, int]:
    """Return a size with sides rounded to what a pipeline supports."""
    # Twice the VAE's factor: transformers use 2x2 patches of latents, and UNets halve them at least once.
    multiple = 2 * getattr(pipeline, "vae_scale_factor", 8)
    width, height = (max(multiple, round(side / multiple) * multiple) for side in size)
    return width, height


def resized(picture: Picture, size: tuple[int, int], crops: bool = False) -> Any:
    """Return the PIL image of a picture in another size.

    `crops` keeps its shape, and crops what does not fit. Otherwise it is stretched.
    """
    from PIL import Image, ImageOps

    if picture.size == size:
        return picture.image
    if crops:
        return ImageOps.fit(picture.image, size, Image.Resampling.LANCZOS)
    return picture.image.resize(size, Image.Resampling.LANCZOS)

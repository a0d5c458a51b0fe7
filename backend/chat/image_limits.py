"""How large an image may be when a model is shown it.

Decision: images are only ever scaled down, once, here, for every backend alike, so that a local checkpoint
and a server with the same weights see the same pixels. The limit is the same however many images there are:
the published demo's smaller one for five and more never took effect. What sizes a checkpoint itself records
comes after this.
"""

from __future__ import annotations

from PIL import Image

from ..pictures import Picture

MAX_PIXELS = 1_048_576
"""Largest area of an image that an agent is shown, unless it is set."""
MAX_PIXELS_BOUND = 16_777_216


def scaled_down(picture: Picture, area: int) -> Picture:
    """The picture with at most `area` pixels, in its aspect ratio; unchanged if it has no more."""
    width, height = picture.size
    if width * height <= area:
        return picture
    scale = (area / (width * height)) ** 0.5
    size = (max(1, min(int(width * scale), area)), max(1, min(int(height * scale), area)))
    return Picture(picture.image.resize(size, Image.Resampling.BICUBIC))

"""Limits the size of images that are shown to a model.

Images are only scaled down, once and here, for all backends alike. So a local checkpoint and a server with
the same weights see the same pixels. The limit does not depend on the number of images: the smaller limit of
the published demo for five and more images never had an effect. The sizes that a checkpoint itself defines
are applied after this.
"""

from __future__ import annotations

from PIL import Image

from ..pictures import Picture

MAX_PIXELS = 1_048_576
"""Default maximum area, in pixels, of an image that is shown to an agent."""
MAX_PIXELS_BOUND = 16_777_216


def scaled_down(picture: Picture, area: int) -> Picture:
    """Return the image with at most `area` pixels, in its aspect ratio; unchanged if it is not larger."""
    width, height = picture.size
    if width * height <= area:
        return picture
    scale = (area / (width * height)) ** 0.5
    size = (max(1, min(int(width * scale), area)), max(1, min(int(height * scale), area)))
    return Picture(picture.image.resize(size, Image.Resampling.BICUBIC))

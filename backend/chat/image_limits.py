"""Limits the size and shape of images that are shown to a model.

Images are scaled down, or framed in white if they are too wide or too tall, once and here, for all backends
alike. So a local checkpoint and a server with the same weights see the same pixels. The limit does not depend
on the number of images: the smaller limit of the published demo for five and more images never had an effect.
The sizes that a checkpoint itself defines are applied after this.
"""

from __future__ import annotations

from PIL import Image

from ..pictures import Picture

MAX_PIXELS = 1_048_576
"""Default maximum area, in pixels, of an image that is shown to an agent."""
MAX_PIXELS_BOUND = 16_777_216


MAX_RATIO = 200
"""Maximum ratio of the sides. The image processor of Qwen-VL raises a ValueError above it."""


def shown_size(size: tuple[int, int], area: int) -> tuple[int, int]:
    """Return the width and height at which a model is shown an image of this size (see `scaled_down`)."""
    width, height = (max(side, -(-max(size) // MAX_RATIO)) for side in size)
    if width * height > area:
        scale = (area / (width * height)) ** 0.5
        width, height = (max(1, min(int(side * scale), area)) for side in (width, height))
    return min(width, MAX_RATIO * height), min(height, MAX_RATIO * width)


def scaled_down(picture: Picture, area: int) -> Picture:
    """Return the image with at most `area` pixels, in its aspect ratio; unchanged if it is not larger.

    An image that is more than 200 times as wide as it is high, or the other way around, is centered on white
    with that ratio.
    """
    size = shown_size(picture.size, area)
    if size == picture.size:
        return picture
    if max(picture.size) <= MAX_RATIO * min(picture.size):
        return Picture(picture.image.resize(size, Image.Resampling.BICUBIC))
    scale = min(1.0, max(size) / max(picture.size))
    width, height = (max(1, round(side * scale)) for side in picture.size)
    shown = picture.image.resize((min(width, size[0]), min(height, size[1])), Image.Resampling.BICUBIC)
    framed = Image.new(shown.mode, size, "white")
    framed.paste(shown, ((size[0] - shown.width) // 2, (size[1] - shown.height) // 2))
    return Picture(framed)

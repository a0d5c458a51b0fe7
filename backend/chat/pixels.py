"""How large an image may be when a model is shown it (FORMATS: what an agent answers).

Decision: images are only ever scaled down, once, here, for every backend alike, so that a local checkpoint and a server
with the same weights see the same pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from ..pictures import Picture
from .protocol import Message

FEW_IMAGES = 4
AREA_OF_FEW = 1_048_576
AREA_OF_MANY = 384 * 384


def area_limit(messages: Sequence[Message]) -> int:
    """Largest area of each image in pixels: 1,048,576, or 384x384 if the conversation has 5 or more images."""
    count = sum(isinstance(part, Picture) for message in messages for part in message.content)
    return AREA_OF_FEW if count <= FEW_IMAGES else AREA_OF_MANY


def scaled_down(picture: Picture, area: int) -> Picture:
    """The picture with at most `area` pixels, in its aspect ratio; unchanged if it has no more."""
    width, height = picture.size
    if width * height <= area:
        return picture
    scale = (area / (width * height)) ** 0.5
    size = (max(1, min(int(width * scale), area)), max(1, min(int(height * scale), area)))
    return Picture(picture.image.resize(size, Image.Resampling.BICUBIC))

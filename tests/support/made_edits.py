"""Images with a change in one place and a nuisance everywhere, as image models make them."""

from __future__ import annotations

import numpy
from PIL import Image, ImageDraw, ImageFilter

from interleave_thinker.backend.core.pictures import Picture

SIDE = 320
CHANGED = (120, 100, 200, 170)
"""Left, top, right and bottom of what `with_change` changes."""


def textured(seed: int = 0, side: int = SIDE) -> Image.Image:
    """Return a scene with texture everywhere: shapes of many colors over a rough ground."""
    random = numpy.random.default_rng(seed)
    rough = random.normal(0, 1, (side // 4, side // 4))
    ground = numpy.asarray(
        Image.fromarray(rough.astype("float32")).resize((side, side), Image.Resampling.BICUBIC)
    )
    down = numpy.linspace(70, 170, side)[:, None, None]
    pixels = down + 14 * ground[:, :, None] + numpy.array([10, -5, 20])
    image = Image.fromarray(pixels.clip(5, 250).astype("uint8"))
    draw = ImageDraw.Draw(image)
    for _ in range(24):
        x, y = random.uniform(0, side, 2)
        size = random.uniform(8, 30)
        color = tuple(int(one) for one in random.uniform(30, 225, 3))
        draw.ellipse((x - size, y - size, x + size, y + size), fill=color, outline=(20, 20, 20))
    return image.filter(ImageFilter.GaussianBlur(0.6))


def with_change(image: Image.Image, color: tuple[int, int, int] = (230, 30, 60)) -> Image.Image:
    """Return the image with a box of another color in it."""
    changed = image.copy()
    ImageDraw.Draw(changed).rectangle(CHANGED, fill=color, outline=(0, 0, 0))
    return changed


def tinted(image: Image.Image, by: tuple[int, int, int] = (7, -4, 3)) -> Image.Image:
    """Return the image with all colors shifted."""
    pixels = numpy.asarray(image, dtype=float) + by
    return Image.fromarray(pixels.round().clip(0, 255).astype("uint8"))


def moved(image: Image.Image, x: int, y: int) -> Image.Image:
    """Return the image moved by some pixels, with repeated edges."""
    pixels = numpy.pad(numpy.asarray(image), ((8, 8), (8, 8), (0, 0)), "edge")
    height, width = image.height, image.width
    return Image.fromarray(pixels[8 - y : 8 - y + height, 8 - x : 8 - x + width].copy())


def far_from_change(margin: int = 16) -> numpy.ndarray:
    """Return the mask (height, width) of pixels that are far from the change."""
    left, top, right, bottom = CHANGED
    mask = numpy.ones((SIDE, SIDE), bool)
    mask[top - margin : bottom + margin, left - margin : right + margin] = False
    return mask


def difference(first: Picture | Image.Image, second: Picture | Image.Image) -> numpy.ndarray:
    """Return the largest difference of the channels of each pixel, 0..255."""
    images = [one.image if isinstance(one, Picture) else one for one in (first, second)]
    return numpy.abs(numpy.asarray(images[0], dtype=int) - numpy.asarray(images[1], dtype=int)).max(2)

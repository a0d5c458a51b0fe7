"""Images that are edited: synthetic scenes, and the photographs that scikit-image contains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy
import skimage.data
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFilter

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "stereo_motorcycle", "hubble_deep_field")
Pixels = numpy.ndarray
"""Shape (height, width, 3), float, 0..255."""


@cache
def photograph(name: str, side: int) -> Pixels:
    """Return a photograph as a square of this side."""
    data = getattr(skimage.data, name)()
    image = Image.fromarray(data[0] if isinstance(data, tuple) else data).convert("RGB")
    least = min(image.size)
    left, top = (image.width - least) // 2, (image.height - least) // 2
    cut = image.crop((left, top, left + least, top + least))
    return numpy.asarray(cut.resize((side, side), Image.Resampling.LANCZOS), dtype=float)


def scene(random: Generator, side: int) -> Pixels:
    """Return a synthetic scene: a sky, a ground with texture, and shapes with shading and outlines."""
    top, bottom = (random.uniform(60, 220, 3) for _ in range(2))
    down = numpy.linspace(0, 1, side)[:, None, None]
    pixels = top * (1 - down) + bottom * down + numpy.zeros((side, side, 1))
    horizon = int(side * random.uniform(0.5, 0.75))
    texture = random.normal(0, 1, (side, side, 1))
    for radius in (1, 2, 4):
        rough = random.normal(0, 1, (side // radius + 1, side // radius + 1))
        big = Image.fromarray(rough.astype("float32")).resize((side, side), Image.Resampling.BICUBIC)
        texture = texture + radius * numpy.asarray(big)[:, :, None]
    pixels[horizon:] = random.uniform(40, 180, 3) + random.uniform(2, 6) * texture[horizon:]
    image = Image.fromarray(pixels.clip(0, 255).astype("uint8"))
    draw = ImageDraw.Draw(image)
    for _ in range(int(random.integers(6, 14))):
        x, y = random.uniform(0, side, 2)
        size = side * random.uniform(0.04, 0.18)
        color = tuple(int(one) for one in random.uniform(20, 235, 3))
        outline = tuple(int(one * 0.5) for one in color)
        box = (x - size, y - size, x + size, y + size)
        kind = random.integers(3)
        if kind == 0:
            draw.ellipse(box, fill=color, outline=outline, width=2)
        elif kind == 1:
            draw.rectangle(box, fill=color, outline=outline, width=2)
        else:
            turns = [random.uniform(0, 2 * math.pi) for _ in range(5)]
            points = [(x + size * math.cos(one), y + size * math.sin(one)) for one in sorted(turns)]
            draw.polygon(points, fill=color, outline=outline)
    noise = random.normal(0, random.uniform(0.5, 2), (side, side, 3))
    soft = numpy.asarray(image.filter(ImageFilter.GaussianBlur(0.6)), dtype=float)
    return (soft + noise).clip(0, 255).round()


def sources(random: Generator, side: int) -> Iterator[Pixels]:
    """Yield images without end, scenes and photographs in turn."""
    while True:
        for name in PHOTOGRAPHS:
            yield scene(random, side)
            flipped = photograph(name, side)
            yield flipped[:, ::-1].copy() if random.random() < 0.5 else flipped

"""Renders scenes to pixels, from backdrops and an atlas of every cell content on every backdrop.

Each scene has exactly one correct image. The atlas (backdrop x cell x content) is made once per process. Data
makers index it, and the exact scorer reads an image by comparing with it.
"""

from __future__ import annotations

import math
import random
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from ...backend.core.pictures import Picture
from .scene import BACKDROPS, EMPTY, IDENTITIES, Scene, color_and_thing
from .sprites import CELL, SCALE, sprite

if TYPE_CHECKING:
    import numpy as np

PAGE = CELL * 3
Color = tuple[int, int, int]
_ATLAS_LOCK = Lock()


def _gradient(top: Color, bottom: Color) -> Image.Image:
    column = Image.new("RGB", (1, PAGE))
    for y in range(PAGE):
        share = y / (PAGE - 1)
        column.putpixel((0, y), tuple(round(a + (b - a) * share) for a, b in zip(top, bottom, strict=True)))
    return column.resize((PAGE, PAGE))


def _overlay(page: Image.Image, paint) -> Image.Image:
    layer = Image.new("RGBA", (PAGE * SCALE, PAGE * SCALE), (0, 0, 0, 0))
    paint(ImageDraw.Draw(layer))
    flat = page.convert("RGBA")
    flat.alpha_composite(layer.resize((PAGE, PAGE), Image.Resampling.LANCZOS))
    return flat.convert("RGB")


def _hill(draw: ImageDraw.ImageDraw, base: float, height: float, waves: float, phase: float, color) -> None:
    side = PAGE * SCALE
    points = [
        (x, (base - height * math.sin(waves * math.pi * x / side + phase)) * side)
        for x in range(0, side + SCALE, SCALE)
    ]
    draw.polygon([*points, (side, side), (0, side)], fill=color)


def _day(draw: ImageDraw.ImageDraw) -> None:
    _hill(draw, 0.84, 0.05, 2.0, 0.4, (188, 226, 190, 255))
    _hill(draw, 0.93, 0.04, 3.0, 2.0, (164, 212, 168, 255))


def _night(draw: ImageDraw.ImageDraw) -> None:
    spots = random.Random(7)
    for _ in range(26):
        x, y, r = (
            spots.uniform(0, PAGE * SCALE),
            spots.uniform(0, PAGE * SCALE * 0.8),
            spots.uniform(3.5, 7),
        )
        draw.ellipse([x - r, y - r, x + r, y + r], fill=(236, 230, 200, 200))
    _hill(draw, 0.92, 0.04, 2.0, 1.2, (30, 34, 74, 255))


def _sea(draw: ImageDraw.ImageDraw) -> None:
    side = PAGE * SCALE
    for row in range(7):
        y = side * (0.08 + row * 0.145)
        wave = [
            (x, y + 8 * math.sin(x / side * 12 * math.pi + row * 1.9)) for x in range(0, side + SCALE, SCALE)
        ]
        draw.line(wave, fill=(232, 252, 250, 120), width=9)


def _meadow(draw: ImageDraw.ImageDraw) -> None:
    tufts = random.Random(11)
    side = PAGE * SCALE
    for _ in range(46):
        x, y, h = tufts.uniform(0, side), tufts.uniform(20, side), tufts.uniform(20, 36)
        for lean in (-9, 0, 9):
            draw.line([(x, y), (x + lean, y - h)], fill=(112, 172, 84, 170), width=7)


_PAINT = {
    "day": ((190, 226, 255), (232, 246, 255), _day),
    "night": ((34, 40, 92), (66, 70, 138), _night),
    "sea": ((132, 222, 222), (44, 158, 178), _sea),
    "meadow": ((214, 240, 160), (160, 212, 116), _meadow),
}


@lru_cache(maxsize=8)
def backdrop_page(backdrop: int) -> Image.Image:
    """Return the empty backdrop, PAGE x PAGE pixels."""
    top, bottom, paint = _PAINT[BACKDROPS[backdrop]]
    return _overlay(_gradient(top, bottom), paint)


def atlas() -> np.ndarray:
    """Return every content on every backdrop as uint8 `(4, 9, 41, CELL, CELL, 3)`.

    The axes are backdrop, cell, content, and RGB pixels. The array is made once, even if several threads ask
    at the same time.
    """
    with _ATLAS_LOCK:
        return _atlas()


@lru_cache(maxsize=1)
def _atlas() -> np.ndarray:
    import numpy as np

    tiles = np.zeros((len(BACKDROPS), 9, IDENTITIES, CELL, CELL, 3), np.uint8)
    sprites = {i: sprite(*color_and_thing(i)) for i in range(1, IDENTITIES)}
    for backdrop in range(len(BACKDROPS)):
        page = backdrop_page(backdrop)
        for cell in range(9):
            left, top = CELL * (cell % 3), CELL * (cell // 3)
            ground = page.crop((left, top, left + CELL, top + CELL)).convert("RGBA")
            tiles[backdrop, cell, EMPTY] = np.asarray(ground.convert("RGB"))
            for identity, picture in sprites.items():
                tiles[backdrop, cell, identity] = np.asarray(
                    Image.alpha_composite(ground, picture).convert("RGB")
                )
    tiles.setflags(write=False)
    return tiles


def draw_array(scene: Scene) -> np.ndarray:
    """Render a scene as uint8 `(PAGE, PAGE, 3)`."""
    import numpy as np

    tiles = atlas()[scene.backdrop, np.arange(9), np.asarray(scene.cells)]
    return tiles.reshape(3, 3, CELL, CELL, 3).transpose(0, 2, 1, 3, 4).reshape(PAGE, PAGE, 3)


def draw(scene: Scene) -> Picture:
    """Return the correct image of a scene."""
    return Picture(Image.fromarray(draw_array(scene)))


def cells_of(pixels: np.ndarray) -> np.ndarray:
    """Cut an image `(PAGE, PAGE, 3)` into its nine tiles `(9, CELL, CELL, 3)`, in reading order."""
    return pixels.reshape(3, CELL, 3, CELL, 3).transpose(0, 2, 1, 3, 4).reshape(9, CELL, CELL, 3)

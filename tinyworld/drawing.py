"""Renders scenes to pixels: objects as vector shapes, backdrops, and an atlas of every content of a cell.

Each object has one outline color, one body color, and features (a face, a door, a sail) that do not depend on
the color, so that people, the critic and the exact scorer tell objects and colors apart. Shapes are drawn at
eight times their size and scaled down for smooth edges. Each scene has exactly one correct image. The atlas
(backdrop x cell x content) is made once per process; data makers index it, and the scorer compares with it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from ..backend.core.pictures import Picture
from .scene import BACKDROPS, EMPTY, IDENTITIES, Scene, color_and_thing

if TYPE_CHECKING:
    import numpy as np


CELL = 32
SCALE = 8
OUTLINE = (43, 40, 62, 255)
PALETTE: dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "red": ((233, 74, 72), (190, 48, 58)),
    "yellow": ((255, 204, 64), (235, 160, 40)),
    "blue": ((72, 120, 240), (44, 80, 190)),
    "white": ((250, 249, 244), (206, 208, 220)),
}
Color = tuple[int, int, int]


class Pen:
    """Draws in a square of 100 x 100 units on a transparent tile of CELL * SCALE pixels."""

    def __init__(self, body: Color, shade: Color) -> None:
        self.tile = Image.new("RGBA", (CELL * SCALE, CELL * SCALE), (0, 0, 0, 0))
        self._draw = ImageDraw.Draw(self.tile)
        self.body, self.shade = body, shade

    def _at(self, *values: float) -> list[float]:
        return [value * CELL * SCALE / 100 for value in values]

    def disc(self, x: float, y: float, radius: float, color: Color) -> None:
        """Draw a filled circle."""
        self._draw.ellipse(self._at(x - radius, y - radius, x + radius, y + radius), fill=color)

    def oval(self, left: float, top: float, right: float, bottom: float, color: Color) -> None:
        """Draw a filled ellipse."""
        self._draw.ellipse(self._at(left, top, right, bottom), fill=color)

    def box(
        self, left: float, top: float, right: float, bottom: float, color: Color, radius: float = 0
    ) -> None:
        """Draw a filled rectangle with rounded corners."""
        self._draw.rounded_rectangle(self._at(left, top, right, bottom), self._at(radius)[0], fill=color)

    def shape(self, points: list[tuple[float, float]], color: Color) -> None:
        """Draw a filled polygon."""
        self._draw.polygon([(x * CELL * SCALE / 100, y * CELL * SCALE / 100) for x, y in points], fill=color)

    def line(self, points: list[tuple[float, float]], width: float, color: Color) -> None:
        """Draw a line."""
        flat = [(x * CELL * SCALE / 100, y * CELL * SCALE / 100) for x, y in points]
        self._draw.line(flat, fill=color, width=round(self._at(width)[0]), joint="curve")

    def face(self, x: float, y: float, size: float = 1.0) -> None:
        """Draw two eyes and a smile."""
        dark = OUTLINE[:3]
        for side in (-1, 1):
            self.disc(x + side * 7.5 * size, y - 2 * size, 2.9 * size, dark)
        box = self._at(x - 6.5 * size, y - 3 * size, x + 6.5 * size, y + 8 * size)
        self._draw.arc(box, 20, 160, fill=dark, width=round(self._at(2.6 * size)[0]))

    def finish(self) -> Image.Image:
        """Return the tile at CELL pixels with an outline around everything."""
        import numpy as np

        alpha = np.pad(np.asarray(self.tile.getchannel("A")), 6)
        for _ in range(2):  # rows, then columns: equals PIL's MaxFilter(13), which takes far longer
            alpha = np.lib.stride_tricks.sliding_window_view(alpha, 13, axis=0).max(-1).T
        outlined = Image.new("RGBA", self.tile.size, (0, 0, 0, 0))
        outlined.paste(Image.new("RGBA", self.tile.size, OUTLINE), mask=Image.fromarray(alpha))
        outlined.alpha_composite(self.tile)
        return outlined.resize((CELL, CELL), Image.Resampling.LANCZOS)


def _ring(x: float, y: float, radius: float, count: int, turn: float = 0.0) -> list[tuple[float, float]]:
    angles = [turn + 2 * math.pi * index / count for index in range(count)]
    return [(x + radius * math.sin(angle), y - radius * math.cos(angle)) for angle in angles]


def _sun(pen: Pen) -> None:
    outer, inner = _ring(50, 50, 42, 12), _ring(50, 50, 29, 12, math.pi / 12)
    pen.shape([point for pair in zip(outer, inner, strict=True) for point in pair], pen.shade)
    pen.disc(50, 50, 25, pen.body)
    pen.face(50, 49, 1.2)


def _moon(pen: Pen) -> None:
    pen.disc(47, 50, 37, pen.body)
    pen.tile.paste((0, 0, 0, 0), mask=_disc_mask(68, 40, 30))
    pen.disc(26, 48, 3.2, OUTLINE[:3])
    pen.line([(27, 64), (34, 68), (42, 67)], 2.8, OUTLINE[:3])
    pen.disc(40, 78, 3.6, pen.shade)


def _disc_mask(x: float, y: float, radius: float) -> Image.Image:
    mask = Image.new("L", (CELL * SCALE, CELL * SCALE), 0)
    unit = CELL * SCALE / 100
    ImageDraw.Draw(mask).ellipse(
        [(x - radius) * unit, (y - radius) * unit, (x + radius) * unit, (y + radius) * unit], fill=255
    )
    return mask


def _cloud(pen: Pen) -> None:
    pen.box(12, 52, 88, 76, pen.shade, 12)
    pen.disc(30, 54, 17, pen.body)
    pen.disc(52, 44, 22, pen.body)
    pen.disc(72, 56, 15, pen.body)
    pen.box(18, 52, 82, 70, pen.body, 9)
    pen.face(50, 55, 1.1)


def _tree(pen: Pen) -> None:
    pen.box(43, 56, 57, 92, (134, 88, 58), 3)
    pen.disc(50, 30, 22, pen.body)
    pen.disc(32, 46, 18, pen.body)
    pen.disc(68, 46, 18, pen.body)
    pen.disc(50, 50, 17, pen.body)
    for x, y in ((38, 34), (60, 26), (66, 48), (34, 52), (50, 46)):
        pen.disc(x, y, 4.2, pen.shade)


def _house(pen: Pen) -> None:
    pen.box(66, 16, 76, 40, (126, 92, 84))
    pen.box(20, 46, 80, 90, pen.body, 3)
    pen.shape([(10, 50), (50, 12), (90, 50)], pen.shade)
    pen.box(42, 64, 58, 90, (120, 78, 56), 5)
    pen.box(26, 56, 38, 68, (190, 232, 255), 2)
    pen.box(62, 56, 74, 68, (190, 232, 255), 2)


def _boat(pen: Pen) -> None:
    pen.line([(50, 14), (50, 66)], 4.5, (126, 88, 62))
    pen.shape([(54, 12), (54, 56), (86, 56)], (255, 246, 224))
    pen.shape([(45, 22), (45, 56), (20, 56)], (244, 226, 196))
    pen.shape([(8, 62), (92, 62), (78, 88), (22, 88)], pen.body)
    pen.shape([(12, 69), (88, 69), (85, 75), (15, 75)], pen.shade)


def _fish(pen: Pen) -> None:
    pen.shape([(64, 50), (94, 26), (88, 50), (94, 74)], pen.shade)
    pen.shape([(36, 30), (56, 14), (62, 34)], pen.shade)
    pen.oval(8, 26, 74, 74, pen.body)
    pen.disc(24, 44, 7, (255, 255, 255))
    pen.disc(23, 45, 3.8, OUTLINE[:3])
    pen.line([(12, 58), (20, 62), (27, 60)], 2.8, OUTLINE[:3])
    for x in (42, 54):
        pen.line([(x, 42), (x + 4, 50), (x, 58)], 2.8, pen.shade)


def _bird(pen: Pen) -> None:
    pen.shape([(16, 50), (2, 36), (6, 60)], pen.shade)
    pen.line([(44, 78), (44, 92)], 4, (240, 150, 50))
    pen.line([(56, 78), (56, 92)], 4, (240, 150, 50))
    pen.oval(12, 36, 76, 84, pen.body)
    pen.disc(68, 34, 18, pen.body)
    pen.shape([(84, 30), (98, 37), (84, 43)], (245, 155, 50))
    pen.oval(20, 46, 52, 70, pen.shade)
    pen.disc(72, 30, 3.8, OUTLINE[:3])


def _flower(pen: Pen) -> None:
    pen.line([(50, 50), (50, 93)], 6, (74, 150, 78))
    pen.oval(50, 68, 78, 82, (96, 178, 92))
    pen.oval(22, 74, 50, 88, (96, 178, 92))
    for x, y in _ring(50, 38, 19, 6):
        pen.disc(x, y, 13.5, pen.body)
    for x, y in _ring(50, 38, 14, 6, math.pi / 6):
        pen.disc(x, y, 3, pen.shade)
    pen.disc(50, 38, 11, (150, 92, 50))


def _star(pen: Pen) -> None:
    outer, inner = _ring(50, 53, 44, 5), _ring(50, 53, 21, 5, math.pi / 5)
    pen.shape([point for pair in zip(outer, inner, strict=True) for point in pair], pen.body)
    pen.shape([(50, 53), outer[2], inner[2], outer[3]], pen.shade)
    pen.disc(50, 53, 19, pen.body)
    pen.face(50, 51, 1.05)


SPRITES: dict[str, Callable[[Pen], None]] = {
    "sun": _sun,
    "moon": _moon,
    "cloud": _cloud,
    "tree": _tree,
    "house": _house,
    "boat": _boat,
    "fish": _fish,
    "bird": _bird,
    "flower": _flower,
    "star": _star,
}


def sprite(color: str, thing: str) -> Image.Image:
    """Return a thing as an RGBA tile of CELL x CELL pixels."""
    body, shade = PALETTE[color]
    pen = Pen(body, shade)
    SPRITES[thing](pen)
    return pen.finish()


PAGE = CELL * 3
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

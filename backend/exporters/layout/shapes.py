"""Panel frames and speech balloons, as outlines that are drawn the same in an image and a PDF.

A shape is a polygon whose round corners are short lines. The same list of points serves both formats, so the
PNG shows what is printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from PIL import Image, ImageDraw

Color = tuple[int, int, int]
Box = tuple[int, int, int, int]
Point = tuple[float, float]
WHITE: Color = (255, 255, 255)
SMOOTH = 4
"""Supersampling factor at which a shape is drawn before it is scaled down."""
CORNER_LINES = 8


@dataclass(frozen=True)
class Shape:
    """A filled outline in pixels.

    Attributes:
        box: Left, top, right and bottom.
        fill: Fill color. None is transparent.
        color: Color of the outline.
        line: Width of the outline.
        round: Radius of the corners.
        tail: Tip of a speech balloon's tail.
    """

    box: Box
    fill: Color | None
    color: Color
    line: int
    round: int = 0
    tail: Point | None = None

    def points(self) -> list[Point]:
        """Return the corners of the outline, clockwise from the upper left."""
        left, top, right, bottom = self.box
        radius = min(self.round, (right - left) // 2, (bottom - top) // 2)
        corners = (
            (left + radius, top + radius, 180),
            (right - radius, top + radius, 270),
            (right - radius, bottom - radius, 0),
            (left + radius, bottom - radius, 90),
        )
        points: list[Point] = []
        for number, (x, y, start) in enumerate(corners):
            if number == 3 and self.tail:
                middle, half = (left + right) / 2, max(4, (right - left) / 16)
                points += [(middle + half, bottom), self.tail, (middle - half, bottom)]
            if not radius:
                points.append((x, y))
                continue
            for step in range(CORNER_LINES + 1):
                angle = math.radians(start + 90 * step / CORNER_LINES)
                points.append((x + radius * math.cos(angle), y + radius * math.sin(angle)))
        return points


def draw_shape(image: Image.Image, shape: Shape) -> None:
    """Draw the shape with smooth edges."""
    points = shape.points()
    left, top = (int(min(values)) - shape.line for values in zip(*points, strict=True))
    right, bottom = (int(max(values)) + shape.line + 1 for values in zip(*points, strict=True))
    size = max(1, right - left) * SMOOTH, max(1, bottom - top) * SMOOTH
    placed = [((x - left) * SMOOTH, (y - top) * SMOOTH) for x, y in points]
    for color, drawn in ((shape.fill, "fill"), (shape.color, "line")):
        if color is None:
            continue
        mask = Image.new("L", size, 0)
        canvas = ImageDraw.Draw(mask)
        if drawn == "fill":
            canvas.polygon(placed, fill=255)
        else:
            canvas.line([*placed, placed[0], placed[1]], fill=255, width=shape.line * SMOOTH, joint="curve")
        small = mask.resize((size[0] // SMOOTH, size[1] // SMOOTH), Image.Resampling.BOX)
        image.paste(Image.new("RGB", small.size, color), (left, top), small)

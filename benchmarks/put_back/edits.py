"""Made edits: a change inside a region, and nuisances over the whole image as image models add them."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from .images import Pixels

EDITS = ("recolor", "paste", "remove", "lines", "light")
NUISANCES = ("none", "shift", "relight", "gamma", "blur", "jpeg", "zoom", "move")
PAIRS = (("shift", "blur"), ("relight", "move"), ("gamma", "jpeg"), ("shift", "zoom"))


def to_image(pixels: Pixels) -> Image.Image:
    """Return pixels as an image."""
    return Image.fromarray(pixels.round().clip(0, 255).astype("uint8"))


def to_pixels(image: Image.Image) -> Pixels:
    """Return an image as pixels."""
    return numpy.asarray(image.convert("RGB"), dtype=float)


def region(random: Generator, side: int, least: float = 0.08, most: float = 0.25) -> Pixels:
    """Return a soft mask (side, side, 1), 0..1, of a blob or polygon."""
    mask = Image.new("L", (4 * side, 4 * side))
    draw = ImageDraw.Draw(mask)
    x, y = random.uniform(0.25, 0.75, 2) * side * 4
    size = 4 * side * random.uniform(least, most)
    turns = numpy.linspace(0, 2 * math.pi, int(random.integers(5, 24)), endpoint=False)
    radii = size * random.uniform(0.6, 1.0, len(turns))
    draw.polygon(
        [(x + r * math.cos(t), y + r * math.sin(t)) for r, t in zip(radii, turns, strict=True)], fill=255
    )
    small = mask.resize((side, side), Image.Resampling.LANCZOS)
    return numpy.asarray(small, dtype=float)[:, :, None] / 255


def edited(before: Pixels, kind: str, random: Generator, other: Pixels) -> tuple[Pixels, Pixels]:
    """Return the image with one change, and the mask (height, width) of pixels that differ."""
    side = before.shape[0]
    mask = region(random, side)
    if kind == "recolor":
        mixed = before[:, :, random.permutation(3)] * random.uniform(0.6, 1.3) + random.uniform(-50, 50, 3)
    elif kind == "paste":
        mixed = numpy.roll(other, tuple(random.integers(0, side, 2)), (0, 1))
    elif kind == "remove":
        blurry = to_image(before).filter(ImageFilter.GaussianBlur(side / 24))
        mixed = to_pixels(blurry) + random.normal(0, 2, before.shape)
    elif kind == "light":
        center = random.uniform(0.3, 0.7, 2) * side
        down, right = numpy.mgrid[:side, :side]
        distance = ((right - center[0]) ** 2 + (down - center[1]) ** 2) / (
            side * random.uniform(0.12, 0.2)
        ) ** 2
        spot = numpy.exp(-distance)[:, :, None]
        mask = (spot > 0.05) * 1.0
        mixed = before * (1 + random.choice([-0.5, 0.6]) * spot)
    else:
        mask, mixed = _lines(before, random)
    clean = (before * (1 - mask) + mixed.clip(0, 255) * mask).round()
    return clean, (numpy.abs(clean - before) > 0).any(2)


def _lines(before: Pixels, random: Generator) -> tuple[Pixels, Pixels]:
    side = before.shape[0]
    layer = Image.new("L", (side, side))
    draw = ImageDraw.Draw(layer)
    for _ in range(int(random.integers(2, 6))):
        ends = [tuple(random.uniform(0.15, 0.85, 2) * side) for _ in range(2)]
        draw.line(ends, fill=255, width=int(random.integers(2, 7)))
    font = ImageFont.load_default(size=side / 14)
    draw.text(tuple(random.uniform(0.1, 0.5, 2) * side), "STORY 27", fill=255, font=font)
    soft = layer.filter(ImageFilter.GaussianBlur(0.5))
    return numpy.asarray(soft, dtype=float)[:, :, None] / 255, numpy.full_like(before, 1) * random.uniform(
        0, 255, 3
    )


@dataclass(frozen=True)
class Nuisance:
    """A change of the whole image, and what could at best be made of its result."""

    apply: Callable[[Pixels], Pixels]
    undo: Callable[[Pixels], Pixels]


def nuisance(kind: str, random: Generator) -> Nuisance:
    """Return a nuisance of this kind with random strength."""
    if kind == "shift":
        by = random.uniform(-8, 8, 3)
        return Nuisance(lambda one: one + by, lambda one: one - by)
    if kind == "relight":
        wave = _field(random, 0.12)
        return Nuisance(lambda one: one * wave(one), lambda one: one / wave(one))
    if kind == "gamma":
        power = random.uniform(0.85, 1.18)
        return Nuisance(
            lambda one: 255 * (one / 255) ** power, lambda one: 255 * (one.clip(0, 255) / 255) ** (1 / power)
        )
    if kind == "blur":
        return Nuisance(_blur, lambda one: one)
    if kind == "jpeg":
        return Nuisance(_jpeg, lambda one: one)
    if kind == "zoom":
        factor = 1 + random.choice([-0.005, 0.005])
        return Nuisance(lambda one: _zoomed(one, factor), lambda one: _zoomed(one, 1 / factor))
    if kind == "move":
        x, y = random.choice([-2, -1, 1, 2], 2)
        return Nuisance(lambda one: _moved(one, x, y), lambda one: _moved(one, -x, -y))
    return Nuisance(lambda one: one, lambda one: one)


def _field(random: Generator, strength: float) -> Callable[[Pixels], Pixels]:
    across, down, both = random.uniform(-strength, strength, 3)

    def field(pixels: Pixels) -> Pixels:
        height, width = pixels.shape[:2]
        y, x = numpy.linspace(-1, 1, height)[:, None, None], numpy.linspace(-1, 1, width)[None, :, None]
        return 1 + across * x + down * y + both * x * y

    return field


def _blur(pixels: Pixels) -> Pixels:
    return to_pixels(to_image(pixels).filter(ImageFilter.GaussianBlur(0.7)))


def _jpeg(pixels: Pixels) -> Pixels:
    buffer = io.BytesIO()
    to_image(pixels).save(buffer, "JPEG", quality=82)
    return to_pixels(Image.open(buffer))


def _zoomed(pixels: Pixels, factor: float) -> Pixels:
    """Scale about the middle, beyond the border the nearest pixels."""
    side = pixels.shape[0]
    pad = 8
    padded = to_image(numpy.pad(pixels, ((pad, pad), (pad, pad), (0, 0)), "edge"))
    middle = side / 2 + pad
    shift = middle - middle / factor
    offset = pad / factor + shift
    moved = padded.transform(
        (side, side),
        Image.Transform.AFFINE,
        (1 / factor, 0, offset, 0, 1 / factor, offset),
        Image.Resampling.BICUBIC,
    )
    return to_pixels(moved)


def _moved(pixels: Pixels, x: int, y: int) -> Pixels:
    pad = 4
    padded = numpy.pad(pixels, ((pad, pad), (pad, pad), (0, 0)), "edge")
    side = pixels.shape[0]
    return padded[pad + y : pad + y + side, pad + x : pad + x + side]


def whole_image_edit(before: Pixels, kind: str, random: Generator, other: Pixels) -> Pixels:
    """Return an edit of the whole image that must not be undone."""
    if kind == "scene":
        return other
    if kind == "night":
        return before * numpy.array([0.35, 0.4, 0.6])
    if kind == "warm":
        return before * numpy.array([1.15, 1.0, 0.75]) + numpy.array([12, 2, -10])
    if kind == "gray":
        return numpy.repeat((before @ numpy.array([0.299, 0.587, 0.114]))[:, :, None], 3, 2)
    if kind == "poster":
        return (before / 64).round() * 64
    if kind == "paint":
        return to_pixels(to_image(before).filter(ImageFilter.ModeFilter(9)))
    if kind == "fog":
        down = numpy.linspace(0.2, 0.8, before.shape[0])[:, None, None]
        return before * (1 - down) + 215 * down
    return 255 - before


WHOLE = ("scene", "night", "warm", "gray", "poster", "paint", "fog", "negative")

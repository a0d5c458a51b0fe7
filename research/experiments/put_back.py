"""Measures put back on made edits, on edits of the whole image, and on a chain of edits.

    OMP_NUM_THREADS=1 python -m research.experiments.put_back --side 1024 --edits 200 --seed 1

- untouched: share of the pixels outside of the change (12 pixels away) that are within 1/255 of BEFORE.
- kept: share of the changed pixels that are within 8 of the change without nuisance; ceiling: the same for
  an exact inverse of the nuisance, which nobody knows outside of this benchmark.
- seam: mean difference from the change without nuisance, in a ring of 12 pixels around it, 0..255.

Scikit-image is needed for its photographs. The last line is JSON.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import skimage.data
import torch
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from interleave_thinker.backend.models.put_back.filters import dilated, eroded
from interleave_thinker.backend.models.put_back.put_back import Restored, restored

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


MARGIN = 12


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--whole", type=int, default=40)
    parser.add_argument("--chain", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for images to look at")
    given = parser.parse_args()
    torch.set_num_threads(1)
    random = numpy.random.default_rng(given.seed)
    images = sources(random, given.side)
    results = {
        "edits": _measured_edits(given, random, images),
        "whole": _measured_whole(given, random, images),
        "chain": _measured_chain(given, random, images),
    }
    print(json.dumps(results))


def put_back(before: Pixels, after: Pixels) -> tuple[Restored, Pixels, float]:
    """Return the result, its pixels, and the CPU seconds."""
    first, second = (torch.from_numpy(one).permute(2, 0, 1).float().contiguous() for one in (before, after))
    started = time.process_time()
    found = restored(first, second)
    seconds = time.process_time() - started
    return found, found.image.permute(1, 2, 0).numpy().round().astype(float), seconds


def _measured_edits(
    given: argparse.Namespace, random: numpy.random.Generator, images: Iterator[Pixels]
) -> dict[str, Any]:
    kinds = [(one,) for one in NUISANCES] + list(PAIRS)
    rows = []
    for number in range(given.edits):
        before, other = next(images), next(images)
        kind, names = EDITS[number % len(EDITS)], kinds[(number // len(EDITS)) % len(kinds)]
        clean, mask = edited(before, kind, random, other)
        chain = [nuisance(one, random) for one in names]
        after = _applied(clean, chain)
        found, result, seconds = put_back(before, after)
        row = {"kind": kind, "nuisance": "+".join(names), "refused": found.refused, "seconds": seconds}
        row |= _compared(before, clean, result, mask)
        row["ceiling"] = _kept(clean, _undone(after, chain), mask)
        row["plain"] = _kept(clean, after, mask)
        rows.append(row)
        if given.out and (number < 30 or row["untouched"] < 0.9 or row["kept"] < row["ceiling"] - 0.3):
            strip = numpy.concatenate((before, after, result, 127 + 4 * (result - before)), 1)
            given.out.mkdir(parents=True, exist_ok=True)
            to_image(strip).save(given.out / f"{number:03}-{kind}-{'-'.join(names)}.png")
    _print_table(rows, "nuisance")
    _print_table(rows, "kind")
    return _means(rows)


def _applied(pixels: Pixels, chain: list[Nuisance]) -> Pixels:
    for one in chain:
        pixels = one.apply(pixels).round().clip(0, 255)
    return pixels


def _undone(pixels: Pixels, chain: list[Nuisance]) -> Pixels:
    for one in reversed(chain):
        pixels = one.undo(pixels)
    return pixels.round().clip(0, 255)


def _grown(mask: Pixels, radius: int) -> Pixels:
    return numpy.asarray(dilated(torch.from_numpy(mask.astype("float32"))[None], radius)[0]) > 0


def _compared(before: Pixels, clean: Pixels, result: Pixels, mask: Pixels) -> dict[str, float]:
    outside = ~_grown(mask, MARGIN)
    ring = _grown(mask, MARGIN) & ~mask
    close = (numpy.abs(result - before) <= 1).all(2)
    return {
        "untouched": float(close[outside].mean()) if outside.any() else 1.0,
        "kept": _kept(clean, result, mask),
        "seam": float(numpy.abs(result - clean)[ring].mean()) if ring.any() else 0.0,
    }


def _kept(clean: Pixels, result: Pixels, mask: Pixels) -> float:
    inner = numpy.asarray(eroded(torch.from_numpy(mask.astype("float32"))[None], 1)[0]) > 0
    where = inner if inner.any() else mask
    return float((numpy.abs(result - clean) <= 8).all(2)[where].mean())


def _measured_whole(
    given: argparse.Namespace, random: numpy.random.Generator, images: Iterator[Pixels]
) -> dict[str, Any]:
    undone, seen = [], []
    for number in range(given.whole):
        before, other = next(images), next(images)
        kind = WHOLE[number % len(WHOLE)]
        after = whole_image_edit(before, kind, random, other).round().clip(0, 255)
        found, result, _ = put_back(before, after)
        toward = numpy.abs(result - after).mean() / max(1e-6, numpy.abs(before - after).mean())
        seen.append((kind, found.refused))
        if not found.refused and toward > 0.1:
            undone.append(kind)
            if given.out:
                strip = numpy.concatenate((before, after, result), 1)
                to_image(strip).save(given.out / f"whole-{number:03}-{kind}.png")
    print(f"whole image: {len(undone)} of {given.whole} undone {undone}")
    return {"count": given.whole, "undone": undone}


def _measured_chain(
    given: argparse.Namespace, random: numpy.random.Generator, images: Iterator[Pixels]
) -> dict[str, Any]:
    results = {}
    for name in ("scene", "photograph"):
        start = next(images)
        truth, plain, held = start, start, start
        touched = numpy.zeros(start.shape[:2], bool)
        refused = 0
        for number in range(given.chain):
            other = start[::-1].copy()
            seed = int(random.integers(2**31))
            # The same change in the truth and in both chains.
            truth, mask = edited(truth, EDITS[number % 4], numpy.random.default_rng(seed), other)
            kinds = random.choice(["shift", "relight", "gamma", "blur", "jpeg", "move"], 2, replace=False)
            chain = [
                nuisance(str(one), numpy.random.default_rng(seed + place)) for place, one in enumerate(kinds)
            ]
            plain = _applied(
                edited(plain, EDITS[number % 4], numpy.random.default_rng(seed), other)[0], chain
            )
            after = _applied(edited(held, EDITS[number % 4], numpy.random.default_rng(seed), other)[0], chain)
            found, held, _ = put_back(held, after)
            refused += bool(found.refused)
            touched |= _grown(mask, MARGIN)
        outside = ~touched
        figures = {
            "without": float(numpy.abs(plain - truth).mean()),
            "with": float(numpy.abs(held - truth).mean()),
            "outside without": float(numpy.abs(plain - truth)[outside].mean()) if outside.any() else None,
            "outside with": float(numpy.abs(held - truth)[outside].mean()) if outside.any() else None,
            "refused": refused,
        }
        results[name] = figures
        print(f"chain of {given.chain}, {name}: {figures}")
        if given.out:
            to_image(numpy.concatenate((start, truth, plain, held), 1)).save(given.out / f"chain-{name}.png")
    return results


def _means(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("untouched", "kept", "ceiling", "plain", "seam", "seconds")
    found = {name: round(float(numpy.mean([row[name] for row in rows])), 4) for name in names}
    return {"count": len(rows), "refused": sum(bool(row["refused"]) for row in rows), **found}


def _print_table(rows: list[dict[str, Any]], by: str) -> None:
    groups = list(dict.fromkeys(row[by] for row in rows))
    for group in [*groups, None]:
        chosen = [row for row in rows if group is None or row[by] == group]
        print(f"{group or 'all':16}", " ".join(f"{name} {value}" for name, value in _means(chosen).items()))
    for reason in sorted({str(row["refused"]) for row in rows if row["refused"]}):
        print(
            "  refused:",
            reason,
            [f"{row['kind']}/{row['nuisance']}" for row in rows if row["refused"] == reason],
        )


if __name__ == "__main__":
    main()

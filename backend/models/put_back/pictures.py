"""Put back for images as the rest of the backend uses them, and for prompts that change the whole image."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...core.pictures import Picture

LEAST_SIDE = 64
MOST_PIXELS = 32 * 1024 * 1024
"""Larger images would need more than about 4 GB of RAM."""
WHOLE_IMAGE = re.compile(
    r"\b(night|dusk|dawn|sunset|sunrise|lighting|brighter|darker|warmer|colder|rain|snow|fog|storm|weather"
    r"|season|style|background|scene|camera)\w*\b",
    re.IGNORECASE,
)
"""Words for the light, weather, style, background or view of the whole image."""
CHANGES = re.compile(r"\b(make|turn|change|set|switch|become|start|begin|fall)s?\b", re.IGNORECASE)
"""Words that ask for a change. Without one, a sentence describes the style or the scene that a story has."""
SENTENCES = re.compile(r"[.!?;。！？；\n]+")


@dataclass(frozen=True)
class PutBack:
    """The result: an image, the share of it that the edit changed, and why it is AFTER itself, if it is."""

    image: Picture
    changed: float
    refused: str = ""


def put_back(before: Picture, after: Picture) -> PutBack:
    """Put the pixels of `before` back into `after` where the edit did not need to change them.

    Takes 1 to 2 seconds of one core per megapixel. If the images are too small or large or of different
    sizes, or differ in more than an edit of a part, the result is `after` itself, with the reason.
    """
    if before.size != after.size:
        sizes = [f"{width}x{height}" for width, height in (before.size, after.size)]
        return PutBack(after, 1.0, f"the images have different sizes ({sizes[0]} and {sizes[1]})")
    if min(after.size) < LEAST_SIDE:
        return PutBack(after, 1.0, f"the images are smaller than {LEAST_SIDE} pixels")
    if after.size[0] * after.size[1] > MOST_PIXELS:
        return PutBack(after, 1.0, f"the images have more than {MOST_PIXELS:,} pixels")
    import numpy
    import torch
    from PIL import Image

    from .put_back import restored

    pixels = [
        torch.from_numpy(numpy.array(one.image)).permute(2, 0, 1).float().contiguous()
        for one in (before, after)
    ]
    found = restored(*pixels)
    if found.refused:
        return PutBack(after, found.changed, found.refused)
    data = found.image.round().permute(1, 2, 0).to(torch.uint8).contiguous().numpy()
    return PutBack(Picture(Image.fromarray(data)), found.changed)


def asks_for_whole_image(prompt: str) -> bool:
    """Return whether a sentence of a prompt asks to change the light, weather, style, background or view.

    The pictures decide in most cases, in any language. English words help where a small change of light comes
    with a change of a part.
    """
    return any(
        WHOLE_IMAGE.search(sentence) is not None and CHANGES.search(sentence) is not None
        for sentence in SENTENCES.split(prompt)
    )

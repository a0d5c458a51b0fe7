"""Requests to a service and its answers: the published protocol, from the client's side.

Nothing of the service itself is imported, so that any service can be checked in the same way.
"""

from __future__ import annotations

import re
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict

from ...backend.pictures import Picture

SIZE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
MAX_SIDE = 8192


class ServiceReply(BaseModel):
    """The part of an answer of /edit and /generate that is evaluated. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    success: bool = False
    image: str | None = None
    edited_image: str | None = None
    error: str | None = None

    @property
    def picture(self) -> str | None:
        """The image in base64, from either of the published field names."""
        return self.edited_image or self.image


def pixels(size: str) -> tuple[int, int]:
    """Return (width, height) of WIDTHxHEIGHT.

    Raises:
        ValueError: The text is not a size, or a side is out of range.
    """
    match = SIZE.fullmatch(size)
    if match is None or not all(1 <= int(side) <= MAX_SIDE for side in match.groups()):
        raise ValueError(f"{size!r} is not WIDTHxHEIGHT with sides of 1 to {MAX_SIDE} pixels")
    return int(match[1]), int(match[2])


def photograph_like(size: tuple[int, int], seed: int = 0) -> Picture:
    """Return an image that compresses like a photograph: soft shapes under fine noise.

    The same size (width, height) and seed give the same image.
    """
    import numpy

    width, height = size
    random = numpy.random.default_rng(seed)
    coarse = random.integers(0, 256, (max(2, height // 64), max(2, width // 64), 3), dtype=numpy.uint8)
    soft = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    noise = random.normal(0.0, 3.0, (height, width, 3))
    return Picture(Image.fromarray(numpy.clip(numpy.asarray(soft) + noise, 0, 255).astype(numpy.uint8)))


def body_of(prompt: str, seed: int, source: str | None, **settings: Any) -> dict[str, Any]:
    """Return the JSON body of an /edit request.

    Args:
        prompt: The prompt.
        seed: The seed.
        source: Source image in base64. None generates from text.
        **settings: Other fields. None leaves a field to the service.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    return {"image": source, "prompt": prompt, "seed": seed} | given

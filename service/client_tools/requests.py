"""What a service is asked and how its answers are counted: the published protocol from the asker's side.

Decision: nothing of the service itself is imported, so that another's service can be measured with the same
ruler. An answer is read as far as it must be to know whether it holds an image, and is bounded as every
foreign answer is.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, ValidationError

from ...backend.pictures import Picture

IMAGE = "image"
"""An answer with an image; all other outcomes are named by their status or by what broke the connection."""
NO_IMAGE = "200 without an image"
UNREADABLE = "200 unreadable"
SIZE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
MAX_SIDE = 8192


class ServiceReply(BaseModel):
    """What /edit and /generate answer, as far as it is counted; further keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    success: bool = False
    image: str | None = None
    edited_image: str | None = None
    error: str | None = None

    @property
    def picture(self) -> str | None:
        """The image in base64, under whichever of the published names it came."""
        return self.edited_image or self.image


@dataclass(frozen=True)
class RequestOutcome:
    """How one request ended: `kind` is IMAGE or what came instead, `digest` that of the encoded image."""

    kind: str
    digest: str = ""
    error: str = ""


def outcome_of(status: int, body: bytes) -> RequestOutcome:
    """What a complete answer amounts to."""
    try:
        drawn = ServiceReply.model_validate_json(body)
    except ValidationError:
        return RequestOutcome(UNREADABLE if status == 200 else str(status))
    if status != 200:
        return RequestOutcome(str(status), error=drawn.error or "")
    if not drawn.success or not drawn.picture:
        return RequestOutcome(NO_IMAGE, error=drawn.error or "")
    content = hashlib.blake2b(drawn.picture.encode("utf-8", "replace"), digest_size=16)
    return RequestOutcome(IMAGE, content.hexdigest())


def pixels(size: str) -> tuple[int, int]:
    """Return (width, height) of WIDTHxHEIGHT.

    Raises:
        ValueError: The text is not a size, or a side is out of range.
    """
    match = SIZE.fullmatch(size)
    if match is None or not all(1 <= int(side) <= MAX_SIDE for side in match.groups()):
        raise ValueError(f"{size!r} is not WIDTHxHEIGHT with 1 to {MAX_SIDE} pixels a side")
    return int(match[1]), int(match[2])


def photograph_like(size: tuple[int, int], seed: int = 0) -> Picture:
    """An image with the cost of a photograph: soft shapes under fine noise, so that PNG neither collapses
    nor copies it. The same for the same `size` (width, height) and `seed`."""
    import numpy

    width, height = size
    random = numpy.random.default_rng(seed)
    coarse = random.integers(0, 256, (max(2, height // 64), max(2, width // 64), 3), dtype=numpy.uint8)
    soft = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    noise = random.normal(0.0, 3.0, (height, width, 3))
    return Picture(Image.fromarray(numpy.clip(numpy.asarray(soft) + noise, 0, 255).astype(numpy.uint8)))


def body_of(prompt: str, seed: int, source: str | None, **settings: Any) -> dict[str, Any]:
    """The JSON of one /edit; `source` in base64, or None to draw from text. Settings that are None are left
    to the service."""
    given = {name: value for name, value in settings.items() if value is not None}
    return {"image": source, "prompt": prompt, "seed": seed} | given

"""The host's images (batches of floats) and the backend's (8-bit pictures), in both directions.

Decision: floats become bytes by cutting off, as the host's Save Image does, so that a picture in a journal is
the file that the host would have saved and an edit starts from the same pixels as one after Load Image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from ...backend.errors import SettingsError
from ...backend.pictures import Picture


def to_pictures(batch: torch.Tensor) -> tuple[Picture, ...]:
    """Pictures of an image batch `[B, H, W, C]`, values 0..1, C of 3 or 4; raises SettingsError for another
    shape."""
    if batch.ndim != 4 or batch.shape[-1] not in (3, 4):
        raise SettingsError(
            f"Images of shape {tuple(batch.shape)} cannot be used; [count, height, width, 3] is wanted."
        )
    pixels = np.clip(255.0 * batch.cpu().numpy(), 0, 255).astype(np.uint8)
    return tuple(Picture(Image.fromarray(one)) for one in pixels)


def to_batch(image: Image.Image) -> torch.Tensor:
    """An image as a batch `[1, H, W, 3]` of floats, values 0..1, as the host's Load Image gives it."""
    pixels = np.array(image.convert("RGB")).astype(np.float32) / 255.0
    return torch.from_numpy(pixels)[None]


def only_picture(batch: Any, where: str) -> Picture:
    """The only picture of an image batch; raises SettingsError if there are more."""
    pictures = to_pictures(batch)
    if len(pictures) != 1:
        raise SettingsError(
            f"{where} has {len(pictures)} images, but one is wanted.",
            "Take one of them (Image From Batch), or set the batch size to 1.",
        )
    return pictures[0]

"""Images as arrays: what the server drew, and photographs for it to edit."""

from __future__ import annotations

import numpy as np
from PIL import Image

from .comfy_server import ComfyServer

PHOTO_SIZE = (128, 128)


def pixels(host: ComfyServer, outputs: dict, node: str = "out", index: int = 0) -> np.ndarray:
    return np.asarray(host.image(outputs[node]["images"][index]).convert("RGB"))


def photograph(size: tuple[int, int], seed: int) -> Image.Image:
    """An image with content at every scale, so that a shift by a pixel or a wrong crop shows."""
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    ramp = np.linspace(0, 255, size[0], dtype=np.uint8)[None, :, None]
    return Image.fromarray((noise // 2 + ramp // 2).astype(np.uint8))

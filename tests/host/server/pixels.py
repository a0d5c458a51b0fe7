"""Images as arrays: the server's results, and photographs for it to edit."""

from __future__ import annotations

import numpy as np
from PIL import Image

from ..graphs.klein import Graph
from .comfy_server import ComfyServer

PHOTO_SIZE = (128, 128)


def pixels(host: ComfyServer, outputs: dict, node: str = "out", index: int = 0) -> np.ndarray:
    return np.asarray(host.image(outputs[node]["images"][index]).convert("RGB"))


def same(host: ComfyServer, mine: Graph, theirs: Graph) -> np.ndarray:
    """Assert that both graphs generate the same pixels, and return them."""
    drawn = pixels(host, host.run(mine))
    np.testing.assert_array_equal(drawn, pixels(host, host.run(theirs)))
    return drawn


def differ(host: ComfyServer, drawn: np.ndarray, other: Graph, least: float) -> None:
    """Assert that another graph generates other pixels, by more than `least` of 255 on average."""
    again = pixels(host, host.run(other))
    assert again.shape != drawn.shape or np.abs(again.astype(int) - drawn).mean() > least


def photograph(size: tuple[int, int], seed: int) -> Image.Image:
    """An image with content at every scale, so that a shift by a pixel or a wrong crop shows."""
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    ramp = np.linspace(0, 255, size[0], dtype=np.uint8)[None, :, None]
    return Image.fromarray((noise // 2 + ramp // 2).astype(np.uint8))

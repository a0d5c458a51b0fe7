"""Image features, computed once for each image: an accepted image is the next step's "before", and the blank
page is everybody's first.

Decision: every image goes through the vision tower alone, whether it is cached or not, so that its features
never depend on which other images were asked about with it. Cached by the digest of its pixels, in main
memory; for a cached image not even the library's image processor runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...byte_lru import ByteLRU, tensor_bytes
from ...counters import count
from ...pictures import Picture
from .qwen3_vl import Features, device_of, image_features


@dataclass(frozen=True)
class ImageFeatures:
    """What the language model is shown of an image. `grid`: patches in time, height, width."""

    grid: tuple[int, int, int]
    levels: Features

    @property
    def tokens(self) -> int:
        return self.levels[0].shape[0]

    def to(self, device: torch.device | str) -> ImageFeatures:
        return ImageFeatures(self.grid, tuple(level.to(device) for level in self.levels))


class VisionCache:
    """Images to features, with those seen before cached within a budget in bytes."""

    def __init__(self, image_processor: Any, budget: int) -> None:
        self._process = image_processor
        self._entries: ByteLRU[tuple[str | None, str, str], ImageFeatures] = ByteLRU(
            budget, lambda features: tensor_bytes(features.levels)
        )

    def clear(self) -> None:
        self._entries.clear()

    def features(self, model: Any, adapter: str | None, picture: Picture) -> ImageFeatures:
        """Features of a picture, on the device of the model."""
        device = device_of(model)
        # An adapter may change the vision tower, another device the last bits.
        key = (adapter, str(device), picture.digest)
        found = self._entries.get(key)
        if found is not None:
            count(images_kept=1)
            return found.to(device)
        inputs = self._process(images=[picture.image], return_tensors="pt")
        patches, grid = inputs["pixel_values"], inputs["image_grid_thw"]
        count(images_seen=1, vision_patches=patches.shape[0])
        time, height, width = grid[0].tolist()
        found = ImageFeatures((time, height, width), image_features(model, patches, grid))
        self._entries.put(key, found.to("cpu"))
        return found

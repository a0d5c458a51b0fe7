"""Image features, computed once per image.

An accepted image is the source of the next step, and the white image is the first one of every story. Every
image is processed by the vision tower alone, so that its features do not depend on the other images of a
prompt. They are cached in RAM by the digest of the pixels. For a cached image not even the library's image
processor runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...machine.byte_lru import ByteLRU, tensor_bytes
from ...machine.counters import count
from ...pictures import Picture
from .qwen3_vl import Features, device_of, image_features


@dataclass(frozen=True)
class ImageFeatures:
    """The features of an image for the language model. `grid`: number of patches in time, height, width."""

    grid: tuple[int, int, int]
    levels: Features

    @property
    def tokens(self) -> int:
        """Number of tokens of the image."""
        return self.levels[0].shape[0]

    def to(self, device: torch.device | str) -> ImageFeatures:
        """Return the features on a device."""
        return ImageFeatures(self.grid, tuple(level.to(device) for level in self.levels))


class VisionCache:
    """Computes image features and caches them within a limit in bytes."""

    def __init__(self, image_processor: Any, budget: int) -> None:
        self._process = image_processor
        self._entries: ByteLRU[tuple[str | None, str, str], ImageFeatures] = ByteLRU(
            budget, lambda features: tensor_bytes(features.levels)
        )

    def clear(self) -> None:
        """Empty the cache."""
        self._entries.clear()

    def features(self, model: Any, adapter: str | None, picture: Picture) -> ImageFeatures:
        """Return the features of an image, on the device of the model."""
        device = device_of(model)
        # An adapter may change the vision tower, and another device the last bits.
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

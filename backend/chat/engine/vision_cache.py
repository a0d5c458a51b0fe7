"""Image features, computed once for each image: an accepted image is the next step's "before", and the blank
page is everybody's first.

Decision: every image goes through the vision tower alone, whether it is kept or not, so that what is seen of
it never depends on which other images were asked about with it. Kept by the digest of its pixels; the
library's own image processor decides about sizes and patches, and is not run for an image whose features are
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...byte_lru import ByteLRU, tensor_bytes
from ...counters import count
from ...pictures import Picture


@dataclass(frozen=True)
class ImageFeatures:
    """What the language model is shown of an image. `grid`: patches in time, height, width. `levels`: the
    tower's output, then one tensor for every layer that features are added to (deepstack), each `(tokens,
    width)`."""

    grid: tuple[int, int, int]
    levels: tuple[torch.Tensor, ...]

    @property
    def tokens(self) -> int:
        return self.levels[0].shape[0]


class Vision:
    """Images to features, with what was seen before kept within a budget of bytes of main memory."""

    def __init__(self, image_processor: Any, budget: int) -> None:
        self._process = image_processor
        self.kept: ByteLRU[tuple[str | None, str, str], ImageFeatures] = ByteLRU(
            budget, lambda features: tensor_bytes(features.levels)
        )

    def features(self, model: Any, adapter: str | None, picture: Picture) -> ImageFeatures:
        """Features of a picture, on the device of the model."""
        tower = model.model.visual
        parameter = next(tower.parameters())
        # An adapter may change the vision tower, another device the last bits.
        key = (adapter, str(parameter.device), picture.digest)
        found = self.kept.get(key)
        if found is None:
            found = self._seen(tower, picture, parameter.device)
            self.kept.put(key, _moved(found, torch.device("cpu")))
        else:
            count(images_kept=1)
        return _moved(found, parameter.device)

    def _seen(self, tower: Any, picture: Picture, device: torch.device) -> ImageFeatures:
        inputs = self._process(images=[picture.image], return_tensors="pt")
        patches, grid = inputs["pixel_values"].to(device), inputs["image_grid_thw"].to(device)
        count(images_seen=1, vision_patches=patches.shape[0])
        seen = tower(patches.to(tower.dtype), grid_thw=grid)
        # Before transformers 5 a pair, since then an object.
        pooled, deepstack = seen if isinstance(seen, tuple) else (seen.pooler_output, seen.deepstack_features)
        time, height, width = grid[0].tolist()
        return ImageFeatures((time, height, width), (pooled, *deepstack))


def _moved(features: ImageFeatures, device: torch.device) -> ImageFeatures:
    return ImageFeatures(features.grid, tuple(level.to(device) for level in features.levels))

"""A prompt as the language model takes it: token ids with room for every image, and the places of all tokens.

Decision: the places are computed here and told to the model with every pass. Left to itself it keeps the
distance between tokens and places from the prompt before (`rope_deltas`), which three versions of
transformers then applied to the wrong prompt when the beginning was already in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .vision_cache import ImageFeatures


@dataclass(frozen=True)
class PromptTokens:
    """`ids`: token ids. `places`: `(4, 1, length)`, for each token its number and its place in time, height
    and width. `head`: tokens up to the end of the first of several images, 0 if there are not several."""

    ids: tuple[int, ...]
    places: torch.Tensor
    head: int
    images: tuple[ImageFeatures, ...]

    @property
    def next_place(self) -> int:
        """Place of the first token of the answer, in all three directions."""
        return int(self.places[1:].max()) + 1


def prompt_tokens(
    tokenizer: Any, prompt: str, image_token: int, images: Sequence[ImageFeatures], merge: int
) -> PromptTokens:
    """Tokens of a prompt with one image token for each image, each widened to as many as the image has
    features.

    `merge`: patches of a side that make one token.
    """
    ids: list[int] = []
    ends: list[int] = []
    left = list(images)
    for token in tokenizer(prompt)["input_ids"]:
        if token == image_token:
            ids += [token] * left.pop(0).tokens
            ends.append(len(ids))
        else:
            ids.append(token)
    if left:
        raise ValueError(f"the chat template shows {len(ends)} of {len(images)} images")
    # The mark that closes an image is part of the head: with it, what follows is text or the next image's own
    # mark.
    head = ends[0] + 1 if len(ends) > 1 else 0
    grids = [image.grid for image in images]
    return PromptTokens(tuple(ids), places_of(ids, image_token, grids, merge), head, tuple(images))


def places_of(
    ids: Sequence[int], image_token: int, grids: Sequence[tuple[int, int, int]], merge: int
) -> torch.Tensor:
    """Places `(4, 1, length)` of tokens: text counts on in all directions alike; an image spans its height
    and width at one time, and text goes on after its longer side (multimodal rotary positions of Qwen2-VL,
    arXiv 2409.12191, 2.1)."""
    parts: list[torch.Tensor] = []
    place, index = 0, 0
    left = list(grids)
    while index < len(ids):
        if ids[index] == image_token:
            time, height, width = left.pop(0)
            height, width = height // merge, width // merge
            sides = torch.meshgrid(
                torch.arange(time), torch.arange(height), torch.arange(width), indexing="ij"
            )
            parts.append(torch.stack(sides).flatten(1) + place)
            index += time * height * width
            place += max(height, width)
        else:
            end = next((at for at in range(index, len(ids)) if ids[at] == image_token), len(ids))
            parts.append(torch.arange(place, place + end - index).expand(3, -1))
            place += end - index
            index = end
    spatial = torch.cat(parts, dim=1)
    return torch.cat([torch.arange(len(ids)).unsqueeze(0), spatial]).unsqueeze(1)

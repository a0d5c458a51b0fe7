"""A prompt as input of the language model: token ids with room for every image, and their position ids.

Positions are computed here and passed to the model every time. Otherwise the model stores an offset from the
last prompt (`rope_deltas`), which three versions of transformers applied to the wrong prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .vision_cache import ImageFeatures


class ImageSpan(NamedTuple):
    """Tokens `start` to `stop` (exclusive) of a prompt, which are the image with this digest."""

    start: int
    stop: int
    digest: str


@dataclass(frozen=True)
class PromptTokens:
    """The tokens of a prompt.

    Attributes:
        ids: Token ids.
        position_ids: `(4, 1, length)`; for each token its number and its position in time, height and width.
        images: Features of the images.
    """

    ids: tuple[int, ...]
    position_ids: torch.Tensor
    images: tuple[ImageFeatures, ...]
    spans: tuple[ImageSpan, ...]
    """Where the images are, in their order."""

    @property
    def next_position(self) -> int:
        """Position of the answer's first token, in all three directions."""
        return int(self.position_ids[1:].max()) + 1


def prompt_tokens(
    tokenizer: Any,
    prompt: str,
    image_token: int,
    images: Sequence[ImageFeatures],
    digests: Sequence[str],
    merge: int,
) -> PromptTokens:
    """Return the tokens of a prompt, with each image token repeated for all features of its image.

    Args:
        tokenizer: The library's tokenizer.
        prompt: A text with one image token for each image.
        image_token: Id of the image token.
        images: Features of the images, in their order.
        digests: Digests of the images' pixels.
        merge: Side length, in patches, of the square that becomes one token.

    Raises:
        ValueError: The prompt has fewer image tokens than images.
    """
    ids: list[int] = []
    spans: list[ImageSpan] = []
    for token in tokenizer(prompt)["input_ids"]:
        start = len(ids)
        if token == image_token:
            ids += [token] * images[len(spans)].tokens
            spans.append(ImageSpan(start, len(ids), digests[len(spans)]))
        else:
            ids.append(token)
    if len(spans) < len(images):
        raise ValueError(
            f"the chat template lacks room for {len(images) - len(spans)} of {len(images)} images"
        )
    grids = [image.grid for image in images]
    position_ids = position_ids_of(ids, image_token, grids, merge)
    return PromptTokens(tuple(ids), position_ids, tuple(images), tuple(spans))


def position_ids_of(
    ids: Sequence[int], image_token: int, grids: Sequence[tuple[int, int, int]], merge: int
) -> torch.Tensor:
    """Return the position ids `(4, 1, length)` of tokens.

    Text advances equally in all directions. An image covers its height and width at one point in time, and
    the text after it continues after its longer side. These are the multimodal rotary positions of Qwen2-VL
    (arXiv 2409.12191, section 2.1).

    Args:
        ids: Token ids.
        image_token: Id of the image token.
        grids: Patches of each image in time, height and width.
        merge: Side length, in patches, of the square that becomes one token.
    """
    parts: list[torch.Tensor] = []
    position, index = 0, 0
    left = list(grids)
    while index < len(ids):
        if ids[index] == image_token:
            time, height, width = left.pop(0)
            height, width = height // merge, width // merge
            sides = torch.meshgrid(
                torch.arange(time), torch.arange(height), torch.arange(width), indexing="ij"
            )
            parts.append(torch.stack(sides).flatten(1) + position)
            index += time * height * width
            position += max(height, width)
        else:
            end = next((at for at in range(index, len(ids)) if ids[at] == image_token), len(ids))
            parts.append(torch.arange(position, position + end - index).expand(3, -1))
            position += end - index
            index = end
    spatial = torch.cat(parts, dim=1)
    return torch.cat([torch.arange(len(ids)).unsqueeze(0), spatial]).unsqueeze(1)

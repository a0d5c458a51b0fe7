"""A key/value cache that grows in place and can be cropped.

The DynamicLayer of transformers copies all keys and values for every token. Here they are in a buffer with
spare room, and attention sees a view of its used part: the same values without copying. Only `update`
differs, so masks and lengths are the library's. (With a static cache attention also sees the empty part,
which needs a mask and other kernels.)
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

ROOM = 256
"""Number of tokens by which the buffers grow."""


class GrowingBuffer:
    """A tensor `(batch, heads, tokens, width)` to which tokens can be appended."""

    def __init__(self) -> None:
        self._buffer: torch.Tensor | None = None
        self._length = 0

    def append(self, states: torch.Tensor) -> torch.Tensor:
        """Append `states` `(batch, heads, new tokens, width)` and return a view of everything so far.

        If there was one row so far, it becomes the beginning of every row of the batch.
        """
        start, end = self._length, self._length + states.shape[-2]
        batch, heads, _, width = states.shape
        if self._buffer is None or end > self._buffer.shape[-2] or batch != self._buffer.shape[0]:
            grown = states.new_empty((batch, heads, (end // ROOM + 1) * ROOM, width))
            if self._buffer is not None:
                grown[..., :start, :] = self._buffer[..., :start, :]
            self._buffer = grown
        self._buffer[..., start:end, :] = states
        self._length = end
        return self._buffer[..., :end, :]

    def crop_to(self, length: int, free: bool = False) -> torch.Tensor:
        """Return a view of the first `length` tokens and drop the rest.

        Args:
            length: At most the current length.
            free: Free the memory of the rest too, apart from one block, and that of all rows but the first.
        """
        assert self._buffer is not None and length <= self._length
        self._length = length
        space = (length // ROOM + 1) * ROOM
        if free and (self._buffer.shape[-2] > space or self._buffer.shape[0] > 1):
            self._buffer = self._buffer[:1, :, :space].clone()
        return self._buffer[..., :length, :]


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer, written in place."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._keys, self._values = GrowingBuffer(), GrowingBuffer()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens; return all keys and values `(batch, heads, tokens, width)`."""
        if not self.is_initialized:
            self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
        self.keys, self.values = self._keys.append(key_states), self._values.append(value_states)
        return self.keys, self.values

    def crop_to(self, length: int, free: bool = False) -> None:
        """Drop all tokens after the first `length`."""
        self.keys, self.values = self._keys.crop_to(length, free), self._values.crop_to(length, free)


class GrowingCache(Cache):
    """An empty cache for a model with `layers` layers of full attention."""

    def __init__(self, layers: int) -> None:
        self.growing = [GrowingLayer() for _ in range(layers)]
        super().__init__(layers=list(self.growing))

    @property
    def device(self) -> torch.device | None:
        """Device of the keys and values, None before the first token."""
        layer = self.growing[0]
        return layer.device if layer.is_initialized else None

    def crop_to(self, length: int, free: bool = False) -> None:
        """Drop all tokens after the first `length`; `free`: and their memory, and all rows but the first."""
        for layer in self.growing:
            layer.crop_to(length, free)

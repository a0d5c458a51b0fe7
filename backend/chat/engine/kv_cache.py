"""A key/value cache that grows in place and can be cut.

Decision: transformers' DynamicLayer copies all keys and values for every token; here they lie in a buffer
with room for more, and attention sees a view of its used part: the same numbers without the copying. Only
`update` differs, so that masks and lengths stay the library's. (A static cache also shows attention its empty
part, which needs a mask and other kernels.)
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

ROOM = 256
"""Tokens by which the buffers grow."""


class GrowingBuffer:
    """A tensor `(batch, heads, tokens, width)` that tokens are appended to."""

    def __init__(self) -> None:
        self._buffer: torch.Tensor | None = None
        self._length = 0

    def append(self, states: torch.Tensor) -> torch.Tensor:
        """Everything so far and these, as a view."""
        start, end = self._length, self._length + states.shape[-2]
        if self._buffer is None or end > self._buffer.shape[-2]:
            batch, heads, _, width = states.shape
            grown = states.new_empty((batch, heads, (end // ROOM + 1) * ROOM, width))
            if self._buffer is not None:
                grown[..., :start, :] = self._buffer[..., :start, :]
            self._buffer = grown
        self._buffer[..., start:end, :] = states
        self._length = end
        return self._buffer[..., :end, :]

    def crop_to(self, length: int) -> torch.Tensor:
        """Only the first `length` tokens, which has to be so many at most."""
        assert self._buffer is not None and length <= self._length
        self._length = length
        return self._buffer[..., :length, :]


class GrowingLayer(DynamicLayer):
    """One layer's keys and values, written in place."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._keys, self._values = GrowingBuffer(), GrowingBuffer()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens; all keys and all values."""
        if not self.is_initialized:
            self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
        self.keys, self.values = self._keys.append(key_states), self._values.append(value_states)
        return self.keys, self.values

    def crop_to(self, length: int) -> None:
        """Drop all tokens but the first `length`."""
        self.keys, self.values = self._keys.crop_to(length), self._values.crop_to(length)


class GrowingCache(Cache):
    """The cache of a model with so many layers of full attention, empty at first."""

    def __init__(self, layers: int) -> None:
        self.growing = [GrowingLayer() for _ in range(layers)]
        super().__init__(layers=list(self.growing))

    @property
    def device(self) -> torch.device | None:
        """Device of the keys and values, None before the first token."""
        layer = self.growing[0]
        return layer.device if layer.is_initialized else None

    def crop_to(self, length: int) -> None:
        """Drop all tokens but the first `length`."""
        for layer in self.growing:
            layer.crop_to(length)

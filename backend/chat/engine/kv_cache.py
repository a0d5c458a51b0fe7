"""A key/value cache that grows in place, and whose beginning can be taken out and put back.

Decision: transformers' DynamicLayer makes a new tensor of all keys and values for every token; here they lie
in a buffer with room for more, and attention sees a view of its used part: the same numbers, without the
copying. Only `update` differs, so that masks and lengths stay the library's. (A static cache would do as
well, but it shows attention its empty part too, which needs a mask and other kernels.)
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

ROOM = 256
"""Tokens by which the buffers grow."""

Head = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""Keys and values `(1, heads, tokens, width)` of every layer."""


class _Rows:
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

    def cut(self, length: int) -> torch.Tensor:
        """Only the first `length` tokens, which has to be so many at most."""
        assert self._buffer is not None and length <= self._length
        self._length = length
        return self._buffer[..., :length, :]


class GrowingLayer(DynamicLayer):
    """One layer's keys and values, written in place."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._keys, self._values = _Rows(), _Rows()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens; all keys and all values."""
        if not self.is_initialized:
            self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
        self.keys, self.values = self._keys.append(key_states), self._values.append(value_states)
        return self.keys, self.values

    def cut(self, length: int) -> None:
        """Forget all tokens but the first `length`."""
        self.keys, self.values = self._keys.cut(length), self._values.cut(length)


class GrowingCache(Cache):
    """The cache of a model with so many layers of full attention, empty at first."""

    def __init__(self, layers: int) -> None:
        self.growing = [GrowingLayer() for _ in range(layers)]
        super().__init__(layers=list(self.growing))

    def keep(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Append to one layer; all its keys and values."""
        return self.growing[layer].update(key, value)

    def cut(self, length: int) -> None:
        """Forget all tokens but the first `length`."""
        for layer in self.growing:
            layer.cut(length)

    def head(self) -> Head:
        """A copy in main memory of all keys and values so far."""
        pairs = ((layer.keys, layer.values) for layer in self.growing)
        return tuple((_copied(keys), _copied(values)) for keys, values in pairs)

    def begin_with(self, head: Head, device: torch.device, batch: int = 1) -> None:
        """Put a head into the empty cache, for each of so many answers."""
        for layer, (keys, values) in zip(self.growing, head, strict=True):
            layer.update(*(part.to(device).expand(batch, -1, -1, -1) for part in (keys, values)))


def _copied(rows: torch.Tensor | None) -> torch.Tensor:
    assert rows is not None, "only a cache that was read into has a head"
    return rows.to("cpu", copy=True).contiguous()

"""Decoding in buffers of a fixed size, so that a step can be compiled once and replayed as one launch on a
CUDA card.

Decision: sizes come in buckets and a step is compiled for a bucket, not for a prompt. Attention sees the
whole bucket through a mask, which rounds otherwise than seeing the used part alone, and reads more: this pays
where launching kernels is what takes the time (a card), and never on a CPU. So it is off unless asked for,
and an agent that decodes so says it in its identity. The buffers lie on the card as long as the weights do.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from ...counters import count
from .decoder import next_hidden
from .kv_cache import GrowingCache

BUCKETS = (1024, 2048, 4096, 8192, 16384, 32768)
"""Tokens of prompt and answer together; longer ones are decoded without."""


def bucket_for(tokens: int) -> int | None:
    """The smallest bucket that holds so many tokens, None if none does."""
    return next((size for size in BUCKETS if size >= tokens), None)


def why_not_compiled(device: torch.device) -> str:
    """Why a step cannot be compiled on this device, empty if it can."""
    if device.type != "cuda":
        return f"compiling is for CUDA cards, and the agent is on {device}"
    if importlib.util.find_spec("triton") is None:
        return "compiling needs the library triton"
    return ""


class StaticDecoding:
    """One bucket's buffers and its step. `backend`: torch.compile's, None runs the step as it is."""

    def __init__(self, model: Any, size: int, backend: Any = None) -> None:
        config = model.config.get_text_config()
        weight = model.lm_head.weight
        dtype = model.get_input_embeddings().weight.dtype
        shape = (1, config.num_key_value_heads, size, config.head_dim)
        self.size, self.device = size, weight.device
        self._model = model
        self._pairs = [
            tuple(torch.zeros(shape, dtype=dtype, device=self.device) for _ in range(2))
            for _ in range(config.num_hidden_layers)
        ]
        self._numbers = torch.arange(size, device=self.device)
        self._run: Any = self._step
        if backend is not None:
            for pair in self._pairs:
                for buffer in pair:
                    # A replayed launch writes to the addresses that it was recorded with.
                    torch._dynamo.mark_static_address(buffer)
            options: dict[str, Any] = {"mode": "reduce-overhead"} if backend == "inductor" else {}
            self._run = torch.compile(self._step, backend=backend, fullgraph=True, dynamic=False, **options)

    def begin_with(self, cache: GrowingCache) -> None:
        """Take over what a prompt left."""
        for (keys, values), layer in zip(self._pairs, cache.growing, strict=True):
            assert layer.keys is not None and layer.values is not None, "a prompt was read"
            length = layer.keys.shape[-2]
            keys[..., :length, :], values[..., :length, :] = layer.keys, layer.values

    def hand_back(self, cache: GrowingCache, length: int) -> None:
        """Give the cache what has come since `begin_with`, so that it has `length` tokens."""
        for number, ((keys, values), layer) in enumerate(zip(self._pairs, cache.growing, strict=True)):
            start = layer.get_seq_length()
            cache.keep(number, keys[..., start:length, :], values[..., start:length, :])

    def logits(self, ids: torch.Tensor, places: torch.Tensor, slot: int) -> torch.Tensor:
        """Logits `(1, vocabulary)` after the token `(1, 1)` at its places `(4, 1, 1)`, which is number `slot`
        of all."""
        count(lm_forwards=1, lm_tokens=1)
        at = torch.tensor([slot], device=self.device)
        # A view would bring its strides along, which differ from prompt to prompt, and have the step compiled
        # for each.
        token = ids.flatten().clone().view(1, 1)
        # The next replay overwrites what this one gave.
        return self._run(token, places, at).float().clone()

    def _step(self, ids: torch.Tensor, places: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        model = self._model

        def keep(layer: int, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            keys, values = self._pairs[layer]
            return keys.index_copy_(2, at, key), values.index_copy_(2, at, value)

        mask = (self._numbers <= at).view(1, 1, 1, -1)
        embedded = model.get_input_embeddings()(ids)
        hidden = next_hidden(model.model.language_model, embedded, places, keep, mask)
        return model.lm_head(hidden)[:, -1, :]

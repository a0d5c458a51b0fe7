"""A few tokens through Qwen3-VL's language model, written out: the same operations, without the library's
layers of calls.

Decision: for so few tokens most of the time goes into calling and not into computing, so the dozen calls
around every layer's matrix products (mask making, output recording, attention dispatch) are left out. Linear
layers are still called as modules, so that adapters and quantised weights work. Only for dense models; the
check at first use compares it with the library as everything else (self_check.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

Keep = Callable[[int, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Takes in a layer's keys and values `(batch, heads, tokens, width)` and gives all that may be looked at,
these last."""
LAYER = "Qwen3VLTextDecoderLayer"


def can_be_written_out(language: Any) -> bool:
    """Whether this language model has the layers that are written out here."""
    return all(type(layer).__name__ == LAYER for layer in language.layers)


def next_hidden(
    language: Any,
    hidden: torch.Tensor,
    places: torch.Tensor,
    keep: Keep,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Last hidden states `(batch, tokens, width)` for embedded tokens of the same shape at their places `(4,
    batch, tokens)`. `mask` `(1, 1, tokens, kept)`: which of what is kept each may look at; None is all, which
    is right for a single token."""
    batch, tokens = hidden.shape[:2]
    cosine, sine = (part.unsqueeze(1) for part in language.rotary_emb(hidden, places[1:]))
    for number, layer in enumerate(language.layers):
        attention = layer.self_attn
        normed = _norm(layer.input_layernorm, hidden)
        heads = (batch, tokens, -1, attention.head_dim)
        query = _norm(attention.q_norm, attention.q_proj(normed).view(heads)).transpose(1, 2)
        key = _norm(attention.k_norm, attention.k_proj(normed).view(heads)).transpose(1, 2)
        value = attention.v_proj(normed).view(heads).transpose(1, 2)
        keys, values = keep(number, _turned(key, cosine, sine), value)
        attended = scaled_dot_product_attention(
            _turned(query, cosine, sine), keys, values, mask, scale=attention.scaling, enable_gqa=True
        )
        hidden = hidden + attention.o_proj(attended.transpose(1, 2).reshape(batch, tokens, -1))
        hidden = hidden + layer.mlp(_norm(layer.post_attention_layernorm, hidden))
    return _norm(language.norm, hidden)


def _norm(module: Any, values: torch.Tensor) -> torch.Tensor:
    """Root mean square normalisation, in 32 bits as the library does it."""
    wide = values.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
    return module.weight * wide.to(values.dtype)


def _turned(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions: pairs are half a head's width apart."""
    half = states.shape[-1] // 2
    swapped = torch.cat((-states[..., half:], states[..., :half]), dim=-1)
    return states * cosine + swapped * sine

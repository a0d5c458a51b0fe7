"""Everything that is read of transformers' Qwen3-VL beside its documented calls: where its parts are, how its
language model is called with embeddings, and its decoder layers inline.

Decision: these names are the library's own and may move with any version, so they stand in this file alone;
the tuples below list them, and tests/backend/chat/engine/test_qwen3_vl.py says which versions have them.
Where one has moved, the check at first use (self_check.py) finds it, and the library's way is taken. Layers
are inline because for a few tokens the calls around their matrix products (mask making, output recording,
attention dispatch) cost more than a tenth of a pass. Linear layers are still called as modules, so that
adapters and quantised weights work; experts (MoE) are left to the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

if TYPE_CHECKING:
    from .kv_cache import GrowingCache

LIBRARY_PATHS = (
    "model.visual.dtype",
    "model.visual.patch_embed.proj",
    "model.language_model",
    "model.rope_deltas",
    "lm_head.weight",
    "config.image_token_id",
    "config.vision_config.spatial_merge_size",
)
"""Attributes of a `Qwen3VLForConditionalGeneration`."""
LAYER_ARGUMENTS = (
    "inputs_embeds",
    "position_ids",
    "use_cache",
    "visual_pos_masks",
    "deepstack_visual_embeds",
)
"""Arguments of its `model.language_model`, beside the cache."""
CACHE_ARGUMENTS = ("cache", "past_key_values")
"""What the cache is called there: since transformers 5.24, and before."""
DECODER_LAYER = "Qwen3VLTextDecoderLayer"
LAYER_PATHS = (
    "input_layernorm.variance_epsilon",
    "self_attn.head_dim",
    "self_attn.scaling",
    "self_attn.q_norm.weight",
    "self_attn.k_norm.weight",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "post_attention_layernorm.weight",
    "mlp",
)
"""Attributes of its decoder layers, which are `model.language_model.layers`, between `rotary_emb` and
`norm`."""
Features = tuple[torch.Tensor, ...]
"""Of one image, each `(tokens, width)`: the vision tower's output, then what is added to the language model's
first layers (deepstack)."""


def device_of(model: Any) -> torch.device:
    """Where token ids go in and logits come out."""
    return model.lm_head.weight.device


def image_token(model: Any) -> int:
    """The token in whose place an image's features stand."""
    return model.config.image_token_id


def merge_size(model: Any) -> int:
    """Patches of a side of an image that become one token."""
    return model.config.vision_config.spatial_merge_size


def image_features(model: Any, patches: torch.Tensor, grid: torch.Tensor) -> Features:
    """Features of one image from its patches; `grid` `(1, 3)`: their number in time, height and width."""
    tower = model.model.visual
    output = tower(patches.to(device_of(model), tower.dtype), grid_thw=grid.to(device_of(model)))
    return (output.pooler_output, *output.deepstack_features)


def hidden_states(
    model: Any, ids: torch.Tensor, position_ids: torch.Tensor, cache: Any, images: Sequence[Features] = ()
) -> torch.Tensor:
    """Last hidden states `(batch, tokens, width)` of tokens `(batch, tokens)` at `position_ids` `(4, batch,
    tokens)`, which the cache then holds. `images`: features for the image tokens, in their order."""
    embedded = model.get_input_embeddings()(ids)
    deepstack: dict[str, Any] = {}
    if images:
        mask = ids == image_token(model)
        pooled, *levels = (torch.cat(level).to(embedded.dtype) for level in zip(*images, strict=True))
        embedded = embedded.masked_scatter(mask.unsqueeze(-1), pooled)
        deepstack = {"visual_pos_masks": mask, "deepstack_visual_embeds": levels}
    return model.model.language_model(
        input_ids=None,
        inputs_embeds=embedded,
        position_ids=position_ids,
        use_cache=True,
        **{cache_argument(type(model.model.language_model)): cache},
        **deepstack,
    ).last_hidden_state


@lru_cache(maxsize=16)
def cache_argument(language_model: type) -> str:
    """What this class of language models calls its cache; the older name where it has neither."""
    accepted = signature(language_model.forward).parameters
    return next((name for name in CACHE_ARGUMENTS if name in accepted), CACHE_ARGUMENTS[-1])


def has_known_layers(model: Any) -> bool:
    """Whether these decoder layers are the ones that are inline here."""
    return all(type(layer).__name__ == DECODER_LAYER for layer in model.model.language_model.layers)


def hidden_states_inline(
    model: Any, ids: torch.Tensor, position_ids: torch.Tensor, cache: GrowingCache
) -> torch.Tensor:
    """As `hidden_states`, for tokens of text behind a prompt: fast for a few of them."""
    language, hidden = model.model.language_model, model.get_input_embeddings()(ids)
    batch, tokens = ids.shape
    mask, before = None, cache.get_seq_length()
    if tokens > 1:
        mask = torch.ones((1, 1, tokens, before + tokens), dtype=torch.bool, device=ids.device).tril(before)
    cosine, sine = (part.unsqueeze(1) for part in language.rotary_emb(hidden, position_ids[1:]))
    for number, layer in enumerate(language.layers):
        attention = layer.self_attn
        normed = _norm(layer.input_layernorm, hidden)
        heads = (batch, tokens, -1, attention.head_dim)
        query = _norm(attention.q_norm, attention.q_proj(normed).view(heads)).transpose(1, 2)
        key = _norm(attention.k_norm, attention.k_proj(normed).view(heads)).transpose(1, 2)
        value = attention.v_proj(normed).view(heads).transpose(1, 2)
        keys, values = cache.growing[number].update(_rotated(key, cosine, sine), value)
        attended = scaled_dot_product_attention(
            _rotated(query, cosine, sine), keys, values, mask, scale=attention.scaling, enable_gqa=True
        )
        hidden = hidden + attention.o_proj(attended.transpose(1, 2).reshape(batch, tokens, -1))
        hidden = hidden + layer.mlp(_norm(layer.post_attention_layernorm, hidden))
    return _norm(language.norm, hidden)


def _norm(module: Any, values: torch.Tensor) -> torch.Tensor:
    """Root mean square normalisation, in 32 bits as the library does it."""
    wide = values.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
    return module.weight * wide.to(values.dtype)


def _rotated(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions: pairs are half a head's width apart."""
    half = states.shape[-1] // 2
    swapped = torch.cat((-states[..., half:], states[..., :half]), dim=-1)
    return states * cosine + swapped * sine


def forget_positions(model: Any) -> None:
    """Have the library's own forward pass compute positions anew: it keeps an offset from the prompt
    before."""
    model.model.rope_deltas = None


def use_linear_patches(model: Any) -> None:
    """Embed image patches by a matrix product, which a convolution with kernel = stride is, exact to
    rounding; any other convolution is left alone.

    The convolution is thousands of times slower on some GPUs in bfloat16 (transformers issue 45750). One
    object is changed: the library's own switch (`fusion_config`) changes the class for the whole process.
    """
    patches = model.model.visual.patch_embed
    convolution = getattr(patches, "proj", None)
    if not isinstance(convolution, torch.nn.Conv3d) or convolution.stride != convolution.kernel_size:
        return

    def forward(hidden_states: torch.Tensor) -> torch.Tensor:
        weight = convolution.weight.flatten(1)
        return linear(hidden_states.to(weight.dtype).view(-1, weight.shape[1]), weight, convolution.bias)

    patches.forward = forward

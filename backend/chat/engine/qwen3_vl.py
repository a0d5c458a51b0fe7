"""Access to the internals of Qwen3-VL in transformers: its parts, its language model and its decoder layers.

These names are internal to the library and may change with any version, so they are used only in this file.
The tuples below list them, and tests/backend/chat/engine/test_qwen3_vl.py records which versions have them.
If one has changed, the check at first use (self_check.py) detects it, and the library's `generate` is used.
The layers are inlined because for a few tokens the overhead around their matrix products (mask creation,
output recording, attention dispatch) takes more than a tenth of a pass. Linear layers are still called as
modules, so that adapters and quantized weights work. Experts (MoE) are left to the library.
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
"""Attributes of a `Qwen3VLForConditionalGeneration` that are used here."""
LAYER_ARGUMENTS = (
    "inputs_embeds",
    "position_ids",
    "use_cache",
    "visual_pos_masks",
    "deepstack_visual_embeds",
)
"""Arguments of its `model.language_model`, in addition to the cache."""
CACHE_ARGUMENTS = ("cache", "past_key_values")
"""Name of the cache argument: since transformers 5.24, and before."""
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
"""Attributes of its decoder layers `model.language_model.layers`, between `rotary_emb` and `norm`."""
Features = tuple[torch.Tensor, ...]
"""Features of one image, each `(tokens, width)`.

The first is the output of the vision tower; the others are added to the language model's first layers
(deepstack)."""


def device_of(model: Any) -> torch.device:
    """Return the device of the token ids and logits."""
    return model.lm_head.weight.device


def image_token(model: Any) -> int:
    """Return the token id that is replaced by an image's features."""
    return model.config.image_token_id


def merge_size(model: Any) -> int:
    """Return the side length, in patches, of the square that becomes one token."""
    return model.config.vision_config.spatial_merge_size


def image_features(model: Any, patches: torch.Tensor, grid: torch.Tensor) -> Features:
    """Return the features of one image.

    Args:
        model: The library's model.
        patches: Patches `(patches, width)`.
        grid: Number of patches in time, height and width `(1, 3)`.
    """
    tower = model.model.visual
    output = tower(patches.to(device_of(model), tower.dtype), grid_thw=grid.to(device_of(model)))
    return (output.pooler_output, *output.deepstack_features)


def hidden_states(
    model: Any, ids: torch.Tensor, position_ids: torch.Tensor, cache: Any, images: Sequence[Features] = ()
) -> torch.Tensor:
    """Return the last hidden states `(batch, tokens, width)` of tokens, and append the tokens to the cache.

    Args:
        model: The library's model.
        ids: Token ids `(batch, tokens)`.
        position_ids: Position ids `(4, batch, tokens)`.
        cache: The cache.
        images: Features for the image tokens, in their order.
    """
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
    """Return the name of the cache argument of this class of models; the older name if it has neither."""
    accepted = signature(language_model.forward).parameters
    return next((name for name in CACHE_ARGUMENTS if name in accepted), CACHE_ARGUMENTS[-1])


def has_known_layers(model: Any) -> bool:
    """Return whether the decoder layers are those that are inlined here."""
    return all(type(layer).__name__ == DECODER_LAYER for layer in model.model.language_model.layers)


def hidden_states_inline(
    model: Any, ids: torch.Tensor, position_ids: torch.Tensor, cache: GrowingCache
) -> torch.Tensor:
    """Return the same as `hidden_states` for text tokens after a prompt; fast for a few tokens."""
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
    """Apply root mean square normalization in 32 bits, as the library does."""
    wide = values.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
    return module.weight * wide.to(values.dtype)


def _rotated(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Apply rotary position embeddings; pairs are half a head's width apart."""
    half = states.shape[-1] // 2
    swapped = torch.cat((-states[..., half:], states[..., :half]), dim=-1)
    return states * cosine + swapped * sine


def forget_positions(model: Any) -> None:
    """Make the library's forward pass compute positions again; it stores an offset from the last prompt."""
    model.model.rope_deltas = None


def use_linear_patches(model: Any) -> None:
    """Embed image patches by a matrix product, which equals a convolution with kernel = stride.

    Any other convolution is left unchanged. The convolution is thousands of times slower on some GPUs in
    bfloat16 (transformers issue 45750). Only this object is changed: the library's own switch
    (`fusion_config`) changes the class for the whole process.
    """
    patches = model.model.visual.patch_embed
    convolution = getattr(patches, "proj", None)
    if not isinstance(convolution, torch.nn.Conv3d) or convolution.stride != convolution.kernel_size:
        return

    def forward(hidden_states: torch.Tensor) -> torch.Tensor:
        weight = convolution.weight.flatten(1)
        return linear(hidden_states.to(weight.dtype).view(-1, weight.shape[1]), weight, convolution.bias)

    patches.forward = forward

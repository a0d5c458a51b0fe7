"""The shapes of Qwen3-VL models: number of weights by kind, and VRAM per token.

Weights are computed from the fields of config.json. A memory estimate therefore takes milliseconds, loads no
library and downloads nothing. The tests check the counts of the published sizes against transformers' own
classes on the meta device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_VISION_SMALL = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "deepstack_visual_indexes": [5, 11, 17],
}
_VISION_LARGE = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "deepstack_visual_indexes": [8, 16, 24],
}
SHAPES: dict[str, dict[str, Any]] = {
    "Qwen/Qwen3-VL-2B-Instruct": {
        "text": {
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
        },
        "vision": _VISION_SMALL,
        "tied": True,
    },
    "Qwen/Qwen3-VL-4B-Instruct": {
        "text": {
            "hidden_size": 2560,
            "intermediate_size": 9728,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
        },
        "vision": _VISION_SMALL,
        "tied": True,
    },
    "Qwen/Qwen3-VL-8B-Instruct": {
        "text": {
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
        },
        "vision": _VISION_LARGE,
        "tied": False,
    },
    "Qwen/Qwen3-VL-32B-Instruct": {
        "text": {
            "hidden_size": 5120,
            "intermediate_size": 25600,
            "num_hidden_layers": 64,
            "num_attention_heads": 64,
        },
        "vision": _VISION_LARGE,
        "tied": False,
    },
}
"""Shapes of the published models, from their config.json, so that an estimate needs no download."""

_TEXT = {
    "vocab_size": 151936,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 262144,
}
_VISION = {
    "num_heads": 16,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "num_position_embeddings": 2304,
}


def published_fields(name: str) -> dict[str, Any]:
    """Return the fields of a published model's config.json that determine its shape.

    Raises:
        KeyError: The name is not in SHAPES.
    """
    shape = SHAPES[name]
    return {
        "text_config": {**_TEXT, **shape["text"], "tie_word_embeddings": shape["tied"]},
        "vision_config": {**_VISION, "out_hidden_size": shape["text"]["hidden_size"], **shape["vision"]},
        "tie_word_embeddings": shape["tied"],
    }


def published_config(name: str) -> Any:
    """Return the same as transformers' configuration."""
    from transformers import Qwen3VLConfig

    return Qwen3VLConfig(**published_fields(name))


@dataclass(frozen=True)
class AgentShape:
    """A Qwen3-VL model: its weights by kind, and the widths that determine its caches and activations."""

    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    layer_weights: int
    """Weights of the language layers, which 8-bit and 4-bit quantization shrinks."""
    table_weights: int
    """Weights of embeddings and output layer, kept at 16 bits."""
    vision_weights: int
    """Weights of the vision tower with its mergers, kept at 16 bits."""
    vision_width: int = 0
    vision_inner: int = 0
    patch: int = 16
    merge: int = 2
    deepstack: int = 0

    @property
    def weights(self) -> int:
        """All weights. A head that is tied to the embeddings counts once."""
        return self.layer_weights + self.table_weights + self.vision_weights

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes per token of the key/value cache at 16 bits: key and value in each layer."""
        return self.layers * self.kv_heads * self.head_width * 2 * 2

    @property
    def patch_values(self) -> int:
        """Number of values in one patch as input to the vision tower: colors of two frames."""
        return 3 * 2 * self.patch**2

    def image_tokens(self, pixels: int) -> int:
        """Return the tokens of an image of this area: one per `merge` x `merge` patches."""
        return -(-pixels // (self.patch * self.merge) ** 2)

    def image_patches(self, pixels: int) -> int:
        """Return the patches of an image of this area, which the vision tower processes."""
        return self.image_tokens(pixels) * self.merge**2


def agent_shape(fields: Mapping[str, Any]) -> AgentShape:
    """Return the shape of a dense Qwen3-VL model.

    Args:
        fields: Fields of its config.json.

    Raises:
        KeyError: A required field is missing.
    """
    text, vision = fields["text_config"], fields["vision_config"]
    width, inner, layers = text["hidden_size"], text["intermediate_size"], text["num_hidden_layers"]
    heads, kv_heads = text["num_attention_heads"], text["num_key_value_heads"]
    head_width = text.get("head_dim") or width // heads
    query, key = heads * head_width, kv_heads * head_width
    # Attention with normalized queries and keys, a gated MLP, two norms.
    layer = width * query * 2 + width * key * 2 + 3 * width * inner + 2 * width + 2 * head_width
    tied = fields.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
    table = text["vocab_size"] * width
    return AgentShape(
        layers=layers,
        width=width,
        inner=inner,
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        vocabulary=text["vocab_size"],
        layer_weights=layer * layers + width,
        table_weights=table * (1 if tied else 2),
        vision_weights=_vision_weights(vision),
        vision_width=vision["hidden_size"],
        vision_inner=vision["intermediate_size"],
        patch=vision["patch_size"],
        merge=vision["spatial_merge_size"],
        deepstack=len(vision.get("deepstack_visual_indexes", ())),
    )


def _vision_weights(vision: Mapping[str, Any]) -> int:
    width, inner = vision["hidden_size"], vision["intermediate_size"]
    patch = vision.get("in_channels", 3) * vision.get("temporal_patch_size", 2) * vision["patch_size"] ** 2
    merged = width * vision["spatial_merge_size"] ** 2
    block = 4 * width**2 + 4 * width + 2 * width * inner + inner + width + 4 * width
    ends = patch * width + width + vision["num_position_embeddings"] * width
    merger = merged**2 + merged + merged * vision["out_hidden_size"] + vision["out_hidden_size"]
    levels = len(vision.get("deepstack_visual_indexes", ()))
    # The last merger normalizes before merging patches, those of the deepstack levels after.
    return block * vision["depth"] + ends + merger * (1 + levels) + 2 * width + 2 * merged * levels

"""The shapes of agents and image models: weights of their parts, and working memory.

Weights of agents are computed from the fields of config.json, so an estimate takes milliseconds, loads no
library and downloads nothing. Working memory of image models is expressed as multiples of a layer's width per
token or pixel, with one number per kind of network, so that it holds for any size. The numbers were counted
with tests/support/live_bytes.py, which follows every tensor of a forward pass on torch's meta device with
fused attention. The tests count them again; research/experiments/h200.py measures memory on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


def _fields(
    width: int, inner: int, layers: int, heads: int, tied: bool, vision: tuple[int, int, int, list[int]]
) -> dict[str, Any]:
    """Return the fields of a published config.json that determine the shape of a model."""
    depth, vision_width, vision_inner, levels = vision
    return {
        "text_config": {
            "hidden_size": width,
            "intermediate_size": inner,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 151936,
            "max_position_embeddings": 262144,
            "tie_word_embeddings": tied,
        },
        "vision_config": {
            "hidden_size": vision_width,
            "intermediate_size": vision_inner,
            "depth": depth,
            "deepstack_visual_indexes": levels,
            "out_hidden_size": width,
            "num_heads": 16,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 2304,
        },
        "tie_word_embeddings": tied,
    }


_VISION_SMALL = (24, 1024, 4096, [5, 11, 17])
_VISION_LARGE = (27, 1152, 4304, [8, 16, 24])
SHAPES = {
    "Qwen/Qwen3-VL-2B-Instruct": _fields(2048, 6144, 28, 16, True, _VISION_SMALL),
    "Qwen/Qwen3-VL-4B-Instruct": _fields(2560, 9728, 36, 32, True, _VISION_SMALL),
    "Qwen/Qwen3-VL-8B-Instruct": _fields(4096, 12288, 36, 32, False, _VISION_LARGE),
    "Qwen/Qwen3-VL-32B-Instruct": _fields(5120, 25600, 64, 64, False, _VISION_LARGE),
}
"""Fields of the published models' config.json, so that an estimate needs no download."""


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


BF16 = 2

PartName = Literal["denoiser", "encoder", "vae"]


@dataclass(frozen=True)
class Denoiser:
    """A diffusion transformer or UNet.

    Attributes:
        weights: Number of weights.
        width: Width of a layer.
        widths: Values alive at once, as multiples of `width`, per token (transformer) or pixel (UNet) of one
            image of a batch.
        pixels_per_token: Pixels of the image per token.
        batch: Images per batch.
        references: Number of reference images of the result's size.
        text_tokens: Tokens of the prompt.
    """

    weights: int
    width: int
    widths: float
    pixels_per_token: int = 256
    batch: int = 1
    """2 if guidance computes the image with and without the prompt at once."""
    references: int = 0
    """Images of the result's size that are additional tokens next to the noise."""
    text_tokens: int = 512

    def work(self, pixels: int) -> float:
        """Return the working memory in bytes of one sampling step at this area, at 16 bits."""
        tokens = pixels / self.pixels_per_token * (1 + self.references)
        text = self.text_tokens if self.pixels_per_token > 1 else 0
        return (tokens + text) * self.widths * self.width * BF16 * self.batch


@dataclass(frozen=True)
class TextEncoders:
    """All text encoders of a model together. The widths are those of the largest."""

    weights: int
    width: int
    inner: int
    layers: int
    tokens: int = 512
    vocabulary: int = 0
    """Values of the output layer per token, which a language model used as an encoder also computes."""

    def work(self) -> float:
        """Return the working memory in bytes.

        It consists of the hidden states of all layers, and of one layer or the result of the output layer.
        """
        states = (self.layers + 1) * self.width
        return self.tokens * BF16 * (states + max(4 * self.width + 3 * self.inner, self.vocabulary))


@dataclass(frozen=True)
class Vae:
    """A VAE. Every factor counts values per pixel, as multiples of `width`.

    The defaults were counted for AutoencoderKL and AutoencoderKLFlux2.

    Attributes:
        weights: Number of weights.
        width: Channels at full size.
        decode: Values alive at once while decoding.
        encode: Values alive at once while encoding.
        decode_workspace: Values that cuDNN allocates in addition while decoding.
        encode_workspace: Values that cuDNN allocates in addition while encoding.
    """

    weights: int
    width: int = 128
    decode: float = 6.01
    encode: float = 5.03
    decode_workspace: float = 3.51
    encode_workspace: float = 1.00
    """cuDNN needs this workspace because it computes convolutions in another memory layout.

    Measured on an H100: proportional to the area, equal for both classes.
    """

    def work(self, pixels: int) -> float:
        """Return the working memory in bytes to decode or encode an image of this area, at 16 bits."""
        values = max(self.decode + self.decode_workspace, self.encode + self.encode_workspace)
        return values * self.width * BF16 * pixels


@dataclass(frozen=True)
class ImageShape:
    """An image model. A part with 0 weights does not exist. `gguf`: bytes of a denoiser in GGUF, or 0."""

    name: str
    denoiser: Denoiser
    encoder: TextEncoders
    vae: Vae
    gguf: float = 0.0

    def work(self, pixels: int) -> dict[PartName, float]:
        """Return the working memory in bytes of each part at this area."""
        return {
            "denoiser": self.denoiser.work(pixels),
            "encoder": self.encoder.work(),
            "vae": self.vae.work(pixels),
        }

    @property
    def weights(self) -> dict[PartName, int]:
        """Number of weights of each part."""
        return {
            "denoiser": self.denoiser.weights,
            "encoder": self.encoder.weights,
            "vae": self.vae.weights,
        }


WIDTHS = {
    "Flux2Transformer2DModel": 22.6,
    "FluxTransformer2DModel": 17.4,
    "QwenImageTransformer2DModel": 14.1,
}
"""Widths of diffusers' transformers by class: the maximum counted for 1,024 to 8,192 image tokens."""
UNET_WIDTHS, UNET_WIDTHS_ATTENDING = 0.25, 0.41
"""Widths of UNets per pixel of the image (64 of which are one latent).

SDXL, whose largest level has no attention, and Stable Diffusion 1.5, whose largest level has.
"""

_FLUX2, _FLUX2_VAE, _KL = WIDTHS["Flux2Transformer2DModel"], Vae(84_046_115), Vae(83_653_863)
_QWEN3_4B = TextEncoders(4_022_468_096, width=2560, inner=9728, layers=36, vocabulary=151_936)
_QWEN3_8B = TextEncoders(8_190_735_360, width=4096, inner=12288, layers=36, vocabulary=151_936)
_QWEN2_5_VL_7B = TextEncoders(
    8_292_166_656, width=3584, inner=18944, layers=28, tokens=1300, vocabulary=152_064
)
_CLIP = 123_060_480
_T5_AND_CLIP = TextEncoders(4_762_310_656 + _CLIP, width=4096, inner=10240, layers=24)

KNOWN: dict[str, ImageShape] = {
    shape.name: shape
    for shape in (
        ImageShape(
            "flux2-klein-4b", Denoiser(3_875_544_576, 3072, _FLUX2, references=1), _QWEN3_4B, _FLUX2_VAE
        ),
        ImageShape(
            "flux2-klein-9b", Denoiser(9_078_581_248, 4096, _FLUX2, references=1), _QWEN3_8B, _FLUX2_VAE
        ),
        ImageShape(
            "qwen-image-edit",
            Denoiser(
                20_430_401_088, 3072, WIDTHS["QwenImageTransformer2DModel"], references=1, text_tokens=1300
            ),
            _QWEN2_5_VL_7B,
            Vae(126_892_531, 96, decode=18.02, encode=10.08, decode_workspace=4.02, encode_workspace=4.02),
        ),
        ImageShape(
            "flux1-kontext",
            Denoiser(11_901_408_320, 3072, WIDTHS["FluxTransformer2DModel"], references=1),
            _T5_AND_CLIP,
            Vae(83_819_683),
        ),
        ImageShape(
            "sdxl",
            Denoiser(2_567_463_684, 320, UNET_WIDTHS, pixels_per_token=1, batch=2),
            TextEncoders(_CLIP + 694_659_840, width=1280, inner=5120, layers=32, tokens=77),
            _KL,
        ),
        ImageShape(
            "sd15",
            Denoiser(859_520_964, 320, UNET_WIDTHS_ATTENDING, pixels_per_token=1, batch=2),
            TextEncoders(_CLIP, width=768, inner=3072, layers=12, tokens=77),
            _KL,
        ),
    )
}
"""Published models by name.

The numbers of weights were counted for their classes with their published configurations, on the meta device.
"""

HUB_IDS = {
    "black-forest-labs/FLUX.2-klein-4B": "flux2-klein-4b",
    "black-forest-labs/FLUX.2-klein-base-4B": "flux2-klein-4b",
    "black-forest-labs/FLUX.2-klein-9B": "flux2-klein-9b",
    "black-forest-labs/FLUX.2-klein-base-9B": "flux2-klein-9b",
    "Qwen/Qwen-Image-Edit": "qwen-image-edit",
    "Qwen/Qwen-Image-Edit-2509": "qwen-image-edit",
    "black-forest-labs/FLUX.1-Kontext-dev": "flux1-kontext",
    "stabilityai/stable-diffusion-xl-base-1.0": "sdxl",
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "sd15",
}
"""The same models by hub id, so that no file of them is needed."""

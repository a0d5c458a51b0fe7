"""The shapes of image models: weights of their parts and working memory.

Working memory is expressed as multiples of a layer's width per token or pixel, with one number per kind of
network, so that it holds for any size. The numbers were counted by following every tensor of a forward pass
on torch's meta device with fused attention. The tests count them again (tests/support/live_bytes.py), and
benchmarks/h200.py measures those of the klein models on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

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
    """An image model. A part with 0 weights does not exist."""

    name: str
    denoiser: Denoiser
    encoder: TextEncoders
    vae: Vae

    def renamed(self, name: str) -> ImageShape:
        """Return the same shape with another name."""
        return replace(self, name=name)

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

_KL = Vae(83_653_863)
_QWEN3_4B = TextEncoders(4_022_468_096, width=2560, inner=9728, layers=36, vocabulary=151_936)
_QWEN3_8B = TextEncoders(8_190_735_360, width=4096, inner=12288, layers=36, vocabulary=151_936)
_QWEN2_5_VL_7B = TextEncoders(
    8_292_166_656, width=3584, inner=18944, layers=28, tokens=1300, vocabulary=152_064
)
_T5_AND_CLIP = TextEncoders(4_762_310_656 + 123_060_480, width=4096, inner=10240, layers=24)

KNOWN: dict[str, ImageShape] = {
    shape.name: shape
    for shape in (
        ImageShape(
            "flux2-klein-4b",
            Denoiser(3_875_544_576, 3072, WIDTHS["Flux2Transformer2DModel"], references=1),
            _QWEN3_4B,
            Vae(84_046_115),
        ),
        ImageShape(
            "flux2-klein-9b",
            Denoiser(9_078_581_248, 4096, WIDTHS["Flux2Transformer2DModel"], references=1),
            _QWEN3_8B,
            Vae(84_046_115),
        ),
        ImageShape(
            "qwen-image-edit",
            Denoiser(
                20_430_401_088,
                3072,
                WIDTHS["QwenImageTransformer2DModel"],
                references=1,
                text_tokens=1300,
            ),
            _QWEN2_5_VL_7B,
            Vae(
                126_892_531,
                width=96,
                decode=18.02,
                encode=10.08,
                decode_workspace=4.02,
                encode_workspace=4.02,
            ),
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
            TextEncoders(123_060_480 + 694_659_840, width=1280, inner=5120, layers=32, tokens=77),
            _KL,
        ),
        ImageShape(
            "sd15",
            Denoiser(859_520_964, 320, UNET_WIDTHS_ATTENDING, pixels_per_token=1, batch=2),
            TextEncoders(123_060_480, width=768, inner=3072, layers=12, tokens=77),
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

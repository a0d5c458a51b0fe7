"""What every edit mode works with and has in common: the loaded model's parts, and drawing from text.

Decision: a mode answers what sampling starts from (`SamplingStart`), given the model's parts (`EditContext`);
it holds no state, so one object of each serves every node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...backend.errors import SettingsError
from .. import host
from ..inputs.model_traits import ModelTraits
from .encode_nodes import EncodeNode, text_node
from .settings import GRID, SamplingSettings, Size, edit_size, on_grid


class KeepingVae:
    """A VAE whose encodings of equal images come from the cache; in all else the VAE itself."""

    def __init__(self, vae: Any, encode: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._vae, self.encode = vae, encode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vae, name)


@dataclass(frozen=True)
class EditContext:
    """What a mode works with; `encode` gives the latent of an image `[1, H, W, 3]` and `encode_text` the
    conditioning of a text, the same one only once."""

    model: Any
    clip: Any
    vae: Any
    traits: ModelTraits
    settings: SamplingSettings
    encode: Callable[[torch.Tensor], torch.Tensor]
    encode_text: Callable[[str], list]
    negative: list | None = None
    """The negative that the graph has ready; it stands for the text of the settings."""

    @property
    def keeping_vae(self) -> KeepingVae:
        """The VAE for the host's own encoders of text and images."""
        return KeepingVae(self.vae, self.encode)

    @property
    def grid(self) -> int:
        """Sides are multiples of this many pixels."""
        return max(GRID, self.traits.pixels_per_latent)

    @property
    def unguided(self) -> bool:
        """The negative is never looked at; the templates of distilled models leave it empty then."""
        always_looks = self.model.model_options.get("disable_cfg1_optimization", False)
        return math.isclose(self.settings.cfg, 1.0) and not always_looks

    def empty(self, size: Size | None, grid: int | None = None) -> torch.Tensor:
        """A latent with nothing in it for an image of this size, None for the size of the settings."""
        return host.empty_latent(self.model, on_grid(size or self.settings.size, grid or self.grid))


@dataclass(frozen=True)
class SamplingStart:
    """What sampling starts from: `size` is the noise schedule's, `denoise` the share of the latent that is
    redrawn."""

    size: Size
    latent: torch.Tensor
    positive: list
    negative: list
    middle: list | None = None
    denoise: float = 1.0


class EditMode:
    """Draws from text; the modes differ in what they do with a source and with reference images."""

    max_images = 1
    """Images that it can be shown, the source among them."""
    guidance: float | None = None
    """The template's second guidance; None leaves the model's own."""
    scaling = "lanczos"

    def start(
        self,
        context: EditContext,
        prompt: str,
        source: torch.Tensor | None,
        references: Sequence[torch.Tensor],
    ) -> SamplingStart:
        """What sampling starts from, for images `[1, H, W, 3]`; `source` None draws from text."""
        if source is None and not references:
            return self._from_text(context, prompt)
        images = self._images(context, source, references)
        return self._edit(context, prompt, images, None if source is None else size_of(images[0]))

    def check(self, context: EditContext, references: int) -> None:
        """Raise SettingsError for settings that this mode would ignore."""
        room = self.max_images - 1
        if references > room:
            raise SettingsError(
                f"{references} reference images are connected; this edit mode takes "
                f"{f'at most {room} beside the image that a step edits' if room else 'none'}.",
                "Disconnect them, or use an edit model such as FLUX.2 klein.",
            )
        if context.settings.guidance and not self.takes_guidance(context.traits):
            raise SettingsError(
                f"{context.traits.name} models take no guidance beside cfg.", "Set 'guidance' to 0."
            )

    def takes_guidance(self, traits: ModelTraits) -> bool:
        """Whether the setting `guidance` does anything."""
        return traits.distilled_guidance

    def second_guidance(self, context: EditContext) -> float | None:
        """The setting, or the template's value."""
        return context.settings.guidance or self.guidance

    def _from_text(self, context: EditContext, prompt: str) -> SamplingStart:
        positive, negative = self._texts(context, prompt)
        return SamplingStart(
            context.settings.size, context.empty(None), self._guided(context, positive), negative
        )

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        """The start for the images of `_images`; `size` is the source's, None where there is none."""
        raise NotImplementedError

    def _images(
        self, context: EditContext, source: torch.Tensor | None, references: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """All images at the sizes in which the model is shown them, the source first."""
        return [self._scaled(context, one) for one in ([] if source is None else [source]) + [*references]]

    def _texts(self, context: EditContext, prompt: str) -> tuple[list, list]:
        row = text_node(context.traits.name)
        if row is not None:
            inputs = encode_inputs(row, context, prompt, context.settings.size)
            positive, negative, *_ = host.call_node(row.node, **inputs)
            host.check_text(context.traits, positive)
            return positive, negative if context.negative is None else context.negative
        positive = context.encode_text(prompt)
        host.check_text(context.traits, positive)
        if context.negative is not None:
            return positive, context.negative
        if context.unguided:
            return positive, host.zero_out(positive)
        return positive, context.encode_text(context.settings.negative)

    def _guided(self, context: EditContext, conditioning: list) -> list:
        guidance = self.second_guidance(context)
        if guidance is None or not context.traits.distilled_guidance:
            return conditioning
        return host.add_guidance(conditioning, guidance)

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        size = edit_size(size_of(pixels), context.settings.area, context.grid)
        # The host's scaling to the same size lays the pixels out anew in memory, which shows in the last bit
        # of a VAE.
        return pixels if size == size_of(pixels) else host.scale(pixels, size, self.scaling)


def encode_inputs(row: EncodeNode, context: EditContext, prompt: str, size: Size) -> dict[str, Any]:
    """What the row's node is given beside the images, for a result of this width and height."""
    inputs: dict[str, Any] = {"clip": context.clip, "prompt": prompt, "vae": context.keeping_vae}
    if row.negative == "own output":
        inputs["negative_prompt"] = context.settings.negative
    if row.sized:
        inputs |= dict(zip(("width", "height"), on_grid(size, max(row.grid, context.grid)), strict=True))
    return inputs | dict(row.fixed)


def scaled_to_area(context: EditContext, pixels: torch.Tensor, method: str) -> torch.Tensor:
    """As ImageScaleToTotalPixels, which also scales to the same size."""
    return host.scale(pixels, edit_size(size_of(pixels), context.settings.area, context.grid), method)


def cut_to_grid(pixels: torch.Tensor, grid: int = GRID) -> torch.Tensor:
    """The middle of an image `[B, H, W, C]`, sides cut down to multiples of `grid`, as the host's VAE cuts
    it."""
    height, width = pixels.shape[1:3]
    kept_width, kept_height = on_grid((width, height), grid)
    top, left = (height - kept_height) // 2, (width - kept_width) // 2
    return pixels[:, top : top + kept_height, left : left + kept_width]


def size_of(pixels: torch.Tensor) -> Size:
    """Width and height of an image `[B, H, W, C]`."""
    return pixels.shape[2], pixels.shape[1]

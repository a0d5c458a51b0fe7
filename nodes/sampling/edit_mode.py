"""Base of the edit modes: the loaded model's parts, and generation from text.

A mode returns the inputs of sampling (`SamplingStart`) for the model's parts (`EditContext`). It has no
state, so all nodes share one object per mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...backend.core.errors import SettingsError
from .. import host
from ..inputs.named_models import ModelTraits
from .families.family import EncodeNode
from .families.registry import text_row
from .settings import GRID, SamplingSettings, Size, edit_size, on_grid


@dataclass(frozen=True)
class EditContext:
    """Inputs of an edit mode. `encode_text` returns the conditioning of a text."""

    model: Any
    clip: Any
    vae: Any
    traits: ModelTraits
    settings: SamplingSettings
    encode_text: Callable[[str], list]
    negative: list | None = None
    """Negative conditioning from the graph, which replaces the text of the settings."""

    @property
    def grid(self) -> int:
        """Side lengths are multiples of this number of pixels."""
        return max(GRID, self.traits.pixels_per_latent)

    @property
    def unguided(self) -> bool:
        """Whether the negative is ignored. The workflows of distilled models leave it empty then."""
        always_looks = self.model.model_options.get("disable_cfg1_optimization", False)
        return math.isclose(self.settings.cfg, 1.0) and not always_looks

    def empty(self, size: Size | None, grid: int | None = None) -> torch.Tensor:
        """Return an empty latent for an image of this size, or of the size in the settings."""
        return host.empty_latent(self.model, on_grid(size or self.settings.size, grid or self.grid))


@dataclass(frozen=True)
class SamplingStart:
    """Inputs of sampling; `size` is for the noise schedule, `denoise` the share of the latent to change."""

    size: Size
    latent: torch.Tensor
    positive: list
    negative: list
    middle: list | None = None
    denoise: float = 1.0
    model: Any = None
    """Model patched for this image, `None` for the loaded one."""


class EditMode:
    """Generates from text. Subclasses differ in how they use a source and reference images."""

    max_images = 1
    """Maximum number of images, the source included."""
    guidance: float | None = None
    """Second guidance of the official workflow, `None` for the model's default."""
    scaling = "lanczos"
    patches_model = False
    """Whether it patches the model for each image."""

    def start(
        self,
        context: EditContext,
        prompt: str,
        source: torch.Tensor | None,
        references: Sequence[torch.Tensor],
    ) -> SamplingStart:
        """Return the inputs of sampling.

        Args:
            context: Inputs of the mode.
            prompt: The prompt.
            source: Image to edit, `(1, height, width, 3)`; `None` generates from text.
            references: Further images, each `(1, height, width, 3)`.
        """
        if source is None and not references:
            return self._from_text(context, prompt)
        images = self._images(context, source, references)
        return self._edit(context, prompt, images, None if source is None else size_of(images[0]))

    def check(self, context: EditContext, references: int) -> None:
        """Check the settings.

        Raises:
            SettingsError: A setting would be ignored, or there are too many references.
        """
        room = self.max_images - 1
        if references > room:
            raise SettingsError(
                f"{references} reference images are connected; this edit method accepts "
                f"{f'at most {room} in addition to the edited image' if room else 'none'}.",
                "Disconnect them, or use an edit model such as FLUX.2 klein.",
            )
        if context.settings.guidance and not self.takes_guidance(context.traits):
            raise SettingsError(
                f"{context.traits.name} models have no guidance in addition to cfg.", "Set 'guidance' to 0."
            )

    def takes_guidance(self, traits: ModelTraits) -> bool:
        """Return whether the setting `guidance` has an effect."""
        return traits.distilled_guidance

    def second_guidance(self, context: EditContext) -> float | None:
        """Return the setting, or the value of the official workflow."""
        return context.settings.guidance or self.guidance

    def _from_text(self, context: EditContext, prompt: str) -> SamplingStart:
        positive, negative = self._texts(context, prompt)
        return SamplingStart(
            context.settings.size, context.empty(None), self._guided(context, positive), negative
        )

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        """Return the inputs of sampling for scaled images; `size` is the source's, `None` without one."""
        raise NotImplementedError

    def _images(
        self, context: EditContext, source: torch.Tensor | None, references: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Return all images at the sizes that the model gets, the source first."""
        return [self._scaled(context, one) for one in ([] if source is None else [source]) + [*references]]

    def _texts(self, context: EditContext, prompt: str) -> tuple[list, list]:
        row = self._text_row(context)
        if row is not None:

            def called(text: str) -> tuple[Any, ...]:
                inputs = encode_inputs(row, context, text, context.settings.size)
                return host.call_node(row.node, **inputs)

            positive, negative, _ = conditionings(row, context, prompt, called)
            return positive, negative
        positive = context.encode_text(prompt)
        host.check_text(context.traits, positive)
        if context.negative is not None:
            return positive, context.negative
        if context.unguided:
            return positive, host.zero_out(positive)
        return positive, context.encode_text(context.settings.negative)

    def _text_row(self, context: EditContext) -> EncodeNode | None:
        """Return the encode node for prompts without images, `None` for CLIP Text Encode."""
        return text_row(context.traits.name)

    def _guided(self, context: EditContext, conditioning: list) -> list:
        guidance = self.second_guidance(context)
        if guidance is None or not context.traits.distilled_guidance:
            return conditioning
        return host.add_guidance(conditioning, guidance)

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        size = edit_size(size_of(pixels), context.settings.area, context.grid)
        # Scaling to the same size changes the memory layout, which changes the last bit of the VAE's result.
        return pixels if size == size_of(pixels) else host.scale(pixels, size, self.scaling)


def encode_inputs(row: EncodeNode, context: EditContext, prompt: str, size: Size) -> dict[str, Any]:
    """Return the inputs of the row's node except the images, for a result of this width and height."""
    inputs: dict[str, Any] = {"vae": context.vae} if row.takes_vae else {}
    if not row.after_text:
        inputs |= {"clip": context.clip, "prompt": prompt}
        if row.negative == "own output":
            inputs["negative_prompt"] = context.settings.negative
    if row.sized:
        inputs |= dict(zip(("width", "height"), on_grid(size, max(row.grid, context.grid)), strict=True))
    return inputs | dict(row.fixed)


def conditionings(
    row: EncodeNode, context: EditContext, prompt: str, called: Callable[[str], tuple[Any, ...]]
) -> tuple[list, list, tuple[Any, ...]]:
    """Return positive and negative conditioning, and all outputs of the node for the positive.

    `called` calls the node of the row for a text and returns its outputs.
    """
    outputs = called(prompt)
    host.check_text(context.traits, outputs[0])
    if context.negative is not None:
        return outputs[0], context.negative, outputs
    if row.negative == "own output":
        return outputs[0], outputs[1], outputs
    if context.unguided:
        return outputs[0], host.zero_out(outputs[0]), outputs
    return outputs[0], called(context.settings.negative)[0], outputs


def scaled_to_area(context: EditContext, pixels: torch.Tensor, method: str) -> torch.Tensor:
    """Scale like ImageScaleToTotalPixels, which also rescales to the same size."""
    return host.scale(pixels, edit_size(size_of(pixels), context.settings.area, context.grid), method)


def cut_to_grid(pixels: torch.Tensor, grid: int = GRID) -> torch.Tensor:
    """Crop an image `(batch, height, width, channels)` to multiples of `grid`, like the host's VAE."""
    height, width = pixels.shape[1:3]
    kept_width, kept_height = on_grid((width, height), grid)
    top, left = (height - kept_height) // 2, (width - kept_width) // 2
    return pixels[:, top : top + kept_height, left : left + kept_width]


def size_of(pixels: torch.Tensor) -> Size:
    """Return width and height of an image `(batch, height, width, channels)`."""
    return pixels.shape[2], pixels.shape[1]

"""Edit methods: what the official workflow of each model family does.

A mode returns the start of sampling and its conditioning, not the sampling itself. Families with an encode
node are rows of a table (encode_nodes.py); the others have a class here. Each follows one official template
node by node, so the pixels are equal; without a source it generates from text like the family's text-to-image
template. The latent of a generated image is not cached for the next edit: the official workflow edits the
8-bit image, whose encoding differs, and a resumed run would differ from an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from .. import host
from ..inputs.model_traits import ModelTraits
from . import encode_nodes, model_families
from .edit_mode import EditContext, EditMode, SamplingStart, cut_to_grid, scaled_to_area, size_of
from .encoded_edit import EncodedEdit
from .settings import Size, kontext_size


class ImageToImage(EditMode):
    """Image to image: starts from the noised source, for models trained without source images."""

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        latent = context.encode(cut_to_grid(images[0], context.grid))
        positive, negative = self._texts(context, prompt)
        return SamplingStart(
            size or context.settings.size,
            latent,
            self._guided(context, positive),
            negative,
            denoise=context.settings.denoise,
        )


class ReferenceLatents(EditMode):
    """FLUX.2: every image is a reference latent on both conditionings; the start is empty."""

    max_images = 9
    scaling = "nearest-exact"

    def second_guidance(self, context: EditContext) -> float | None:
        """Return the setting, or the value of the official workflow."""
        return context.settings.guidance or (4.0 if context.traits.is_flux2 else None)

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        positive, negative = self._texts(context, prompt)
        positive = self._guided(context, positive)
        for image in images:
            latent = context.encode(cut_to_grid(image, context.grid))
            positive, negative = (host.add_reference(text, latent) for text in (positive, negative))
        return SamplingStart(size or context.settings.size, context.empty(size), positive, negative)

    def _images(
        self, context: EditContext, source: torch.Tensor | None, references: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        images = [*([] if source is None else [source]), *references]
        # The template of FLUX.2 dev scales one image with lanczos, two with area; that of klein always the
        # same.
        dev = "lanczos" if len(images) == 1 else "area"
        method = dev if context.traits.distilled_guidance else self.scaling
        return [scaled_to_area(context, image, method) for image in images]


class OmniGen2(EditMode):
    """OmniGen2: references on positive and middle conditioning, separate guidance for text and images."""

    max_images = 5
    guidance = 2.0
    scaling = "area"

    def takes_guidance(self, traits: ModelTraits) -> bool:
        """Return whether the setting `guidance` has an effect."""
        return True

    def _from_text(self, context: EditContext, prompt: str) -> SamplingStart:
        start = super()._from_text(context, prompt)
        return replace(start, middle=start.negative)

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        positive, negative = self._texts(context, prompt)
        middle = negative
        for image in images:
            latent = context.encode(cut_to_grid(image, context.grid))
            positive, middle = (host.add_reference(text, latent) for text in (positive, middle))
        return SamplingStart(
            size or context.settings.size, context.empty(size), positive, negative, middle=middle
        )

    def _texts(self, context: EditContext, prompt: str) -> tuple[list, list]:
        positive = context.encode_text(prompt)
        host.check_text(context.traits, positive)
        return positive, context.negative or context.encode_text(context.settings.negative)

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        return scaled_to_area(context, pixels, self.scaling)


class Kontext(EditMode):
    """FLUX.1 Kontext: the source at one of the trained sizes is reference and start.

    The template stitches several images side by side, and the result has the shape of the stitched image, so
    it would widen at every step. Here each further image is a separate reference latent.
    """

    max_images = 5
    guidance = 2.5

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        latents = [context.encode(image) for image in images]
        positive, negative = self._texts(context, prompt)
        for latent in latents:
            positive = host.add_reference(positive, latent)
        begin = latents[0] if size else context.empty(None)
        return SamplingStart(size or context.settings.size, begin, self._guided(context, positive), negative)

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        return host.scale(pixels, kontext_size(size_of(pixels), context.settings.area), "lanczos", "center")


MODES: dict[str, EditMode] = {
    model_families.REFERENCE: ReferenceLatents(),
    model_families.NOISE: ImageToImage(),
    model_families.KONTEXT: Kontext(),
    model_families.OMNIGEN2: OmniGen2(),
    model_families.QWEN_EDIT: EncodedEdit(encode_nodes.QWEN_EDIT_NODE),
    model_families.QWEN_PLUS: EncodedEdit(encode_nodes.QWEN_PLUS_NODE),
    model_families.QWEN_2511: EncodedEdit(encode_nodes.QWEN_2511_NODE),
    model_families.Z_OMNI: EncodedEdit(encode_nodes.Z_OMNI_NODE),
}
"""Modes by their names in EDIT_CHOICES, except `auto` and the model's own encode node."""
OWN_NODES: dict[str, EditMode] = {model: EncodedEdit(row) for model, row in encode_nodes.BY_MODEL.items()}
"""Modes by the host's class of the model."""


def edit_mode(choice: str, model: ModelTraits) -> EditMode:
    """Return the mode of a choice that `edit_choice` returned for this model."""
    return OWN_NODES[model.name] if choice == model_families.ENCODE else MODES[choice]

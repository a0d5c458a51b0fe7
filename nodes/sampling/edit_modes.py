"""The ways of editing an image: what the host's official graph of a model family does.

Decision: a mode gives what sampling starts from and its conditioning, never how it samples. Families whose
images go through an encode node are rows of a table (encode_nodes.py); the others have a class here. Each
follows one official template node for node, so that its pixels are the template's; without a source it draws
from text as the family's text-to-image template does. Latents of an image just drawn are not cached for the
next edit: the official graph edits the 8-bit picture, whose encoding is another one, and a run resumed from
its journal would differ from one that was not stopped.
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
    """The source, noised, is the start: for models that were trained on text alone."""

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
    """FLUX.2 (klein's and dev's templates): every image is a reference latent on both conditionings, the
    start is empty."""

    max_images = 9
    scaling = "nearest-exact"

    def second_guidance(self, context: EditContext) -> float | None:
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
        # FLUX.2 dev's template with one image scales with lanczos, the one with two with area; klein's all
        # the same way.
        dev = "lanczos" if len(images) == 1 else "area"
        method = dev if context.traits.distilled_guidance else self.scaling
        return [scaled_to_area(context, image, method) for image in images]


class OmniGen2(EditMode):
    """OmniGen2: references on the positive and the middle conditioning, guided by text and by images
    apart."""

    max_images = 5
    guidance = 2.0
    scaling = "area"

    def takes_guidance(self, traits: ModelTraits) -> bool:
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
    """FLUX.1 Kontext: the source at one of its trained sizes is reference and start at once.

    The template joins several images side by side into one, so that the result takes the shape of the joint
    image: a page would widen at every step. Here each further image is a reference latent of its own.
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
"""By the names of EDIT_CHOICES, `auto` and the model's own encode node aside."""
OWN_NODES: dict[str, EditMode] = {model: EncodedEdit(row) for model, row in encode_nodes.BY_MODEL.items()}
"""By the host's class of the model."""


def edit_mode(choice: str, model: ModelTraits) -> EditMode:
    """The mode of a choice that `edit_choice` gave for this model."""
    return OWN_NODES[model.name] if choice == model_families.ENCODE else MODES[choice]

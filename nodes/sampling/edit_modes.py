"""The ways of editing an image, one class each: what the host's official graph of that model family does.

Decision: a mode gives what sampling starts from and its conditioning, never how it samples. Each mode follows
one official template node for node, so that its pixels are the template's; without a source it draws from
text as the family's text-to-image template does. Latents of an image just drawn are not cached for the next
edit: the official graph edits the 8-bit picture, whose encoding is another one, and a run resumed from its
journal would differ from one that was not stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from .. import host
from ..inputs.model_traits import ModelTraits
from . import model_families
from .edit_mode import EditContext, EditMode, Start, cut_to_grid, scaled_to_area, size_of
from .settings import Size, kontext_size


class ImageToImage(EditMode):
    """The source, noised, is the start: for models that were trained on text alone."""

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> Start:
        latent = context.encode(cut_to_grid(images[0], context.grid))
        positive, negative = self._texts(context, prompt)
        return Start(
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
    ) -> Start:
        positive, negative = self._texts(context, prompt)
        positive = self._guided(context, positive)
        for image in images:
            latent = context.encode(cut_to_grid(image, context.grid))
            positive, negative = (host.add_reference(text, latent) for text in (positive, negative))
        return Start(size or context.settings.size, context.empty(size), positive, negative)

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

    def _from_text(self, context: EditContext, prompt: str) -> Start:
        start = super()._from_text(context, prompt)
        return replace(start, middle=start.negative)

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> Start:
        positive, negative = self._texts(context, prompt)
        middle = negative
        for image in images:
            latent = context.encode(cut_to_grid(image, context.grid))
            positive, middle = (host.add_reference(text, latent) for text in (positive, middle))
        return Start(size or context.settings.size, context.empty(size), positive, negative, middle=middle)

    def _texts(self, context: EditContext, prompt: str) -> tuple[list, list]:
        positive = context.encode_text(prompt)
        host.check_text(context.traits, positive)
        return positive, context.encode_text(context.settings.negative)

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
    ) -> Start:
        latents = [context.encode(image) for image in images]
        positive, negative = self._texts(context, prompt)
        for latent in latents:
            positive = host.add_reference(positive, latent)
        begin = latents[0] if size else context.empty(None)
        return Start(size or context.settings.size, begin, self._guided(context, positive), negative)

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        return host.scale(pixels, kontext_size(size_of(pixels), context.settings.area), "lanczos", "center")


class QwenEdit(EditMode):
    """Qwen-Image-Edit: the text encoder looks at the source, whose encoding is also the start."""

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> Start:
        positive = self._told(context, prompt, images)
        host.check_text(context.traits, positive)
        negative = (
            host.zero_out(positive)
            if context.unguided
            else self._told(context, context.settings.negative, images)
        )
        begin = context.encode(images[0]) if size else context.empty(None)
        return Start(size or context.settings.size, begin, positive, negative)

    def _told(self, context: EditContext, prompt: str, images: Sequence[torch.Tensor]) -> list:
        return host.encode_qwen_edit(context.clip, prompt, context.keeping_vae, images[0])

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        return cut_to_grid(super()._scaled(context, pixels), context.grid)


class QwenEditPlus(QwenEdit):
    """Qwen-Image-Edit-2509: up to three images, the source at one of Kontext's sizes, the others as they
    are."""

    max_images = 3

    def _images(
        self, context: EditContext, source: torch.Tensor | None, references: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        if source is None:
            return [*references]
        size = kontext_size(size_of(source), context.settings.area)
        return [host.scale(source, size, "lanczos", "center"), *references]

    def _told(self, context: EditContext, prompt: str, images: Sequence[torch.Tensor]) -> list:
        return host.encode_qwen_edit_plus(context.clip, prompt, context.keeping_vae, images)


class QwenEdit2511(QwenEditPlus):
    """Qwen-Image-Edit-2511: as 2509, its references laid out at time zero."""

    def _told(self, context: EditContext, prompt: str, images: Sequence[torch.Tensor]) -> list:
        return host.lay_out_references(super()._told(context, prompt, images), "index_timestep_zero")


class ZImageOmni(EditMode):
    """Z-Image Omni: references with the prompt cut in pieces around them; the host ships a node and no
    template."""

    max_images = 3
    scaling = "area"

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> Start:
        positive = self._told(context, prompt, images)
        host.check_text(context.traits, positive)
        negative = (
            host.zero_out(positive)
            if context.unguided
            else self._told(context, context.settings.negative, images)
        )
        return Start(size or context.settings.size, context.empty(size), positive, negative)

    def _told(self, context: EditContext, prompt: str, images: Sequence[torch.Tensor]) -> list:
        return host.encode_z_image_omni(context.clip, prompt, context.keeping_vae, images)

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        return cut_to_grid(super()._scaled(context, pixels), context.grid)


MODES: dict[str, EditMode] = {
    model_families.REFERENCE: ReferenceLatents(),
    model_families.NOISE: ImageToImage(),
    model_families.KONTEXT: Kontext(),
    model_families.QWEN_EDIT: QwenEdit(),
    model_families.QWEN_PLUS: QwenEditPlus(),
    model_families.QWEN_2511: QwenEdit2511(),
    model_families.OMNIGEN2: OmniGen2(),
    model_families.Z_OMNI: ZImageOmni(),
}
"""By the names of EDIT_CHOICES, `auto` aside."""

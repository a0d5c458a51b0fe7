"""Edit methods: what the official workflow of each model family does.

A mode returns the start of sampling and its conditioning, not the sampling itself. Families with an encode
node need only their description (`families`); the others have a class here. Each follows one official
template node by node, so the pixels are equal; without a source it generates from text like the family's
text-to-image template. The latent of a generated image is not cached for the next edit: the official
workflow edits the 8-bit image, whose encoding differs, and a resumed run would differ from an uninterrupted
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from .. import host
from ..inputs.named_models import ModelTraits
from .edit_mode import (
    EditContext,
    EditMode,
    SamplingStart,
    conditionings,
    cut_to_grid,
    encode_inputs,
    scaled_to_area,
    size_of,
)
from .families.family import NOISE, REFERENCE, EncodeNode, with_image_numbers
from .families.registry import chosen_family, with_method
from .settings import Size, edit_size, kontext_size, on_grid, stepped_size

KONTEXT = "flux kontext"
OMNIGEN2 = "omnigen2"
KREA2_IDENTITY = "krea 2 identity edit"


class ImageToImage(EditMode):
    """Image to image: starts from the noised source, for models trained without source images."""

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        latent = context.vae.encode(cut_to_grid(images[0], context.grid))
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

    max_images = with_method(REFERENCE)[0].most_images
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
            latent = context.vae.encode(cut_to_grid(image, context.grid))
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

    max_images = with_method(OMNIGEN2)[0].most_images
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
            latent = context.vae.encode(cut_to_grid(image, context.grid))
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

    max_images = with_method(KONTEXT)[0].most_images
    guidance = 2.5

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        latents = [context.vae.encode(image) for image in images]
        positive, negative = self._texts(context, prompt)
        for latent in latents:
            positive = host.add_reference(positive, latent)
        begin = latents[0] if size else context.empty(None)
        return SamplingStart(size or context.settings.size, begin, self._guided(context, positive), negative)

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        return host.scale(pixels, kontext_size(size_of(pixels), context.settings.area), "lanczos", "center")


class Krea2Identity(EditMode):
    """Krea 2 Identity Edit: the source patches the model, and text encoder and model see the same images.

    The nodes are those of the pack comfyui-krea2edit. The images are scaled to the shape of the result here,
    so the model needs only their latents (its documentation: at equal sizes both ways give one geometry).
    """

    max_images = with_method(KREA2_IDENTITY)[0].most_images
    patches_model = True
    PATCH, ENCODE = "Krea2EditModelPatch", "Krea2EditGroundedEncode"

    def check(self, context: EditContext, references: int) -> None:
        """Check the settings.

        Raises:
            SettingsError: A setting would be ignored, or the node pack is missing.
        """
        super().check(context, references)
        host.check_node(self.PATCH, ("source_latent", "source_latent_b"))
        host.check_node(self.ENCODE, ("image", "image_b"))

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        images = [cut_to_grid(image, context.grid) for image in images]
        ends = ("", "_b")
        shown = {f"image{end}": image for end, image in zip(ends, images, strict=False)}
        latents = {
            f"source_latent{end}": {"samples": context.vae.encode(image)}
            for end, image in zip(ends, images, strict=False)
        }

        def encoded(text: str) -> list:
            return host.call_node(self.ENCODE, clip=context.clip, prompt=text, **shown)[0]

        positive = encoded(prompt)
        host.check_text(context.traits, positive)
        negative = context.negative
        if negative is None:
            negative = host.zero_out(positive) if context.unguided else encoded(context.settings.negative)
        model = host.call_node(self.PATCH, model=context.model, **latents)[0]
        shape = None if size is None else size_of(images[0])
        return SamplingStart(
            shape or context.settings.size, context.empty(shape), positive, negative, model=model
        )


class EncodedEdit(EditMode):
    """Edits with the encode node of a row; generates from text like the model family."""

    def __init__(self, row: EncodeNode) -> None:
        self._row = row
        self.max_images = row.most_images

    def check(self, context: EditContext, references: int) -> None:
        """Check the settings.

        Raises:
            SettingsError: A setting would be ignored, or the host lacks the node.
        """
        super().check(context, references)
        row = self._row
        images = [row.images.group] if row.images.group else row.images.names
        sizes = ("width", "height") if row.sized else ()
        source = (row.source,) if row.source else ()
        host.check_node(row.node, [*images, *source, *sizes, *dict(row.fixed)])

    def _from_text(self, context: EditContext, prompt: str) -> SamplingStart:
        row = self._row
        if not (row.draws_text and row.sized and row.latent == "own output"):
            return super()._from_text(context, prompt)
        positive, negative, outputs = self._conditionings(context, prompt, [], None)
        size = on_grid(context.settings.size, self._grid(context))
        return SamplingStart(size, outputs[-1]["samples"], self._guided(context, positive), negative)

    def _edit(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], size: Size | None
    ) -> SamplingStart:
        row = self._row
        shape = self._shape(context, size)
        positive, negative, outputs = self._conditionings(context, prompt, images, shape)
        if row.layout is not None:
            positive, negative = (host.lay_out_references(text, row.layout) for text in (positive, negative))
        if row.latent == "own output" and (size or row.sized):
            latent = outputs[-1]["samples"]
        elif row.latent == "source" and size:
            latent = context.vae.encode(images[0])
        else:
            latent = context.empty(shape, self._grid(context))
        return SamplingStart(shape or context.settings.size, latent, positive, negative)

    def _conditionings(
        self, context: EditContext, prompt: str, images: list[torch.Tensor], shape: Size | None
    ) -> tuple[list, list, tuple[Any, ...]]:
        """Return positive and negative conditioning, and all outputs of the node for the positive."""
        row = self._row
        prompt = with_image_numbers(prompt, row.mark, len(images), row.first_mark)
        size = shape or context.settings.size
        shown = encode_images(row, images, edits=shape is not None)
        if row.after_text:
            positive, negative = self._texts(context, prompt)
            inputs = encode_inputs(row, context, prompt, size) | shown
            outputs = host.call_node(row.node, positive=positive, negative=negative, **inputs)
            return outputs[0], outputs[1], outputs

        def called(text: str) -> tuple[Any, ...]:
            return host.call_node(row.node, **encode_inputs(row, context, text, size), **shown)

        return conditionings(row, context, prompt, called)

    def _text_row(self, context: EditContext) -> EncodeNode | None:
        return self._row if self._row.draws_text else super()._text_row(context)

    def _shape(self, context: EditContext, size: Size | None) -> Size | None:
        """Return width and height of the result, `None` without a source."""
        if size is None:
            return None
        grid = self._grid(context)
        if self._row.fit == "as it is":
            size = edit_size(size, context.settings.area, grid)
        return on_grid(size, grid)

    def _grid(self, context: EditContext) -> int:
        return max(self._row.grid, context.traits.pixels_per_latent)

    def _images(
        self, context: EditContext, source: torch.Tensor | None, references: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        first = [] if source is None else [self._scaled(context, source)]
        if not self._row.fits_references:
            return [*first, *references]
        return [*first, *(self._scaled(context, one) for one in references)]

    def _scaled(self, context: EditContext, pixels: torch.Tensor) -> torch.Tensor:
        fit, method = self._row.fit, self._row.scaling
        grid, area, size = self._grid(context), context.settings.area, size_of(pixels)
        if fit == "as it is":
            return pixels
        if fit == "kontext":
            return host.scale(pixels, kontext_size(size, area), method, "center")
        wanted = edit_size(size, area, grid) if fit == "area" else stepped_size(size, area, grid)
        # Scaling to the same size changes the memory layout, which changes the last bit of the VAE's result.
        scaled = pixels if wanted == size and fit != "steps" else host.scale(pixels, wanted, method)
        return cut_to_grid(scaled, grid)


def encode_images(row: EncodeNode, images: Sequence[torch.Tensor], edits: bool) -> dict[str, Any]:
    """Return the images as inputs of the row's node; `edits` says that the first one is edited."""
    if not images:
        return {}
    apart = 1 if row.source and edits else 0
    source = {row.source: images[0]} if apart else {}
    named = dict(zip(row.images.names, images[apart:], strict=False))
    return source | ({row.images.group: named} if row.images.group else named)


MODES: dict[str, EditMode] = {
    REFERENCE: ReferenceLatents(),
    NOISE: ImageToImage(),
    KONTEXT: Kontext(),
    OMNIGEN2: OmniGen2(),
    KREA2_IDENTITY: Krea2Identity(),
}
"""Modes with a class of their own, by their names in EDIT_CHOICES."""


def edit_mode(choice: str, model: ModelTraits) -> EditMode:
    """Return the mode of a choice that `edit_choice` returned for this model."""
    if choice in MODES:
        return MODES[choice]
    family = chosen_family(model.name, choice)
    if family is None or family.row is None:
        raise ValueError(f"no family of {model.name} has the edit method {choice!r}")
    return EncodedEdit(family.row)

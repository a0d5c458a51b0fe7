"""Edit mode for models with an encode node in the host.

One class serves all encode nodes of the families. It scales the images as in the official workflow, calls the
node, and uses the conditionings and the latent that the node returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import host
from .edit_mode import (
    EditContext,
    EditMode,
    SamplingStart,
    conditionings,
    cut_to_grid,
    encode_inputs,
    size_of,
)
from .families.encode_node import EncodeNode, with_image_numbers
from .settings import Size, edit_size, kontext_size, on_grid, stepped_size


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
            latent = context.encode(images[0])
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

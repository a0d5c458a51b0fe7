"""A diffusers pipeline under the host's memory management, which stops when the user presses cancel.

Decision: the pipeline is read onto the CPU and moved by the host as one model before every draw, like an agent: a card that
holds either of them serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backend.errors import ChatError, GeneratorError
from ..backend.pictures import Picture
from . import host

if TYPE_CHECKING:
    from ..backend.generators.diffusers import DiffusersGenerator

WORKING_BYTES = 2 * 1024**3
"""Room for activations beside the weights, about what an image of a megapixel takes."""


class ManagedPipeline:
    """Implements Generator around a DiffusersGenerator that was opened on the CPU."""

    def __init__(self, generator: DiffusersGenerator) -> None:
        import torch

        self._generator = generator
        self._generator.interrupted = host.interrupted
        self._residence = host.ManagedModel.of(torch.nn.ModuleList(generator.modules))

    @property
    def identity(self) -> str:
        return self._generator.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Load the pipeline and draw. Raises GeneratorError, or Cancelled once the user presses cancel."""
        host.stop_if_interrupted()
        try:
            self._residence.ensure_loaded(WORKING_BYTES)
        except ChatError as error:
            raise GeneratorError(
                "The diffusers pipeline does not fit into the memory of the card.",
                "Choose dtype bfloat16 or a smaller model, or draw with ComfyUI's own loaders and a Step Generator.",
            ) from error
        return self._generator.draw(prompt, source, seed)

"""A diffusers pipeline under the host's memory management, which stops when the user presses cancel.

Decision: the pipeline is read onto the CPU and moved by the host as one model before every draw, like an
agent: a card that holds either of them serves both. Beside the weights it asks the host for what `doctor
--plan` reckons for an image of this area.
"""

from __future__ import annotations

import threading
from copy import copy
from typing import TYPE_CHECKING

from ...backend.errors import ChatError, GeneratorError, SettingsError
from ...backend.pictures import Picture
from ...backend.types import StepSettings
from ...backend.vram.footprint import image_work
from ...backend.vram.image_shapes import ImageShape
from ...backend.vram.models import pipeline_shape
from .. import host

if TYPE_CHECKING:
    from ...backend.generators.pipelines.generator import DiffusersGenerator

UNKNOWN_WORK = 2 * 1024**3
"""Room beside the weights of a pipeline that cannot be reckoned: about what an image of a megapixel takes
with those that can."""


class ManagedPipeline:
    """Implements Generator around a DiffusersGenerator that was opened on the CPU."""

    def __init__(self, generator: DiffusersGenerator) -> None:
        import torch

        self._generator = generator
        self._generator.interrupted = host.interrupted
        self._one_at_a_time = threading.Lock()
        self._shape = _shape_of(generator)
        modules = torch.nn.ModuleList(generator.modules)
        self._bytes_each = max((weight.element_size() for weight in modules.parameters()), default=4)
        self._residence = host.ManagedModel.of(modules)

    @property
    def identity(self) -> str:
        return self._generator.identity

    @property
    def step_settings(self) -> frozenset[str]:
        """The pipeline's own."""
        return self._generator.step_settings

    @property
    def max_reference_images(self) -> int:
        """The pipeline's own."""
        return self._generator.max_reference_images

    def with_step_settings(self, settings: StepSettings) -> ManagedPipeline:
        """The same weights, lock and residence, drawing with these settings."""
        other = copy(self)
        other._generator = self._generator.with_step_settings(settings)
        return other

    def working_bytes(self, source: Picture | None) -> int:
        """What drawing takes beside the weights, which are all on the card meanwhile."""
        if self._shape is None:
            return UNKNOWN_WORK
        return image_work(self._shape, self._generator.area(source), self._bytes_each)

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Load the pipeline and draw. Raises GeneratorError, or Cancelled once the user presses cancel."""
        with self._one_at_a_time:
            host.stop_if_interrupted()
            try:
                self._residence.ensure_loaded(self.working_bytes(source))
            except ChatError as error:
                raise GeneratorError(
                    "The diffusers pipeline does not fit into the memory of the card.",
                    (
                        "Choose dtype bfloat16 or a smaller model, or draw with ComfyUI's own loaders and a "
                        "Step Generator."
                    ),
                ) from error
            return self._generator.draw(prompt, source, seed)


def _shape_of(generator: DiffusersGenerator) -> ImageShape | None:
    """What the plan knows of the pipeline; None where its parts are not named as usual."""
    if generator.folder is None:
        return None
    try:
        return pipeline_shape(generator.folder)
    except SettingsError:
        return None

"""A diffusers pipeline under the host's memory management, which stops when the user presses cancel.

The pipeline is loaded into RAM and moved by the host as one model before every image, like an agent. So a GPU
that has room for one of them at a time is enough. In addition to the weights it requests the working memory
that `doctor --plan` estimates for an image of this area.
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
"""Working memory in bytes of a pipeline that cannot be estimated: about that of others at one megapixel."""


class ManagedPipeline:
    """Implements Generator around a DiffusersGenerator that was opened on the CPU."""

    def __init__(self, generator: DiffusersGenerator) -> None:
        import torch

        self._generator = generator
        self._generator.interrupted = host.interrupted
        self._generator.loras.find = host.lora_file
        self._generator.loras.where = "models/loras"
        self._one_at_a_time = threading.Lock()
        self._shape = _shape_of(generator)
        modules = torch.nn.ModuleList(generator.modules)
        self._bytes_each = max((weight.element_size() for weight in modules.parameters()), default=4)
        self._residence = host.ManagedModel.of(modules)

    @property
    def identity(self) -> str:
        """Identity for cache keys."""
        return self._generator.identity

    @property
    def step_settings(self) -> frozenset[str]:
        """Settings of single steps that the pipeline supports."""
        return self._generator.step_settings

    @property
    def max_reference_images(self) -> int:
        """Maximum number of reference images."""
        return self._generator.max_reference_images

    @property
    def image_mark(self) -> str:
        """Notation of an image number in a prompt."""
        return self._generator.image_mark

    def with_step_settings(self, settings: StepSettings) -> ManagedPipeline:
        """Return a pipeline with these settings that shares weights, lock and residence.

        Raises:
            SettingsError: A value does not fit the pipeline.
            GeneratorError: A LoRA cannot be loaded.
        """
        other = copy(self)
        with self._one_at_a_time:
            other._generator = self._generator.with_step_settings(settings)
        return other

    def lora_digest(self, name: str) -> str:
        """Return the content digest of a LoRA in the host's folders.

        Raises:
            SettingsError: It was not found.
        """
        return self._generator.lora_digest(name)

    def working_bytes(self, source: Picture | None) -> int:
        """Return the working memory in bytes, in addition to the weights."""
        if self._shape is None:
            return UNKNOWN_WORK
        return image_work(self._shape, self._generator.area(source), self._bytes_each)

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Move the pipeline to the GPU and generate an image.

        Raises:
            GeneratorError: The pipeline failed or does not fit.
            Cancelled: The user pressed cancel.
        """
        with self._one_at_a_time:
            host.stop_if_interrupted()
            try:
                self._residence.ensure_loaded(self.working_bytes(source))
            except ChatError as error:
                raise GeneratorError(
                    "The diffusers pipeline does not fit into the GPU's memory.",
                    "Set the precision to bfloat16, use a smaller model, or use ComfyUI's own loaders with a "
                    "Step Generator.",
                ) from error
            return self._generator.draw(prompt, source, seed)


def _shape_of(generator: DiffusersGenerator) -> ImageShape | None:
    """Return the shape of the pipeline for memory estimates, `None` if its parts have unusual names."""
    if generator.folder is None:
        return None
    try:
        return pipeline_shape(generator.folder)
    except SettingsError:
        return None

"""Generates with a diffusers pipeline: text-to-image for the first step, edits of the last image afterwards.

A pipeline is used as opened (opening.py), without a wrapper class per kind. The differences between kinds are
in a table (kinds.py). Noise comes from a CPU generator, so a seed gives the same noise on every device. A
pipeline that can only edit (Qwen-Image-Edit) gets a white image as long as no source image exists.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from ...errors import Cancelled, GeneratorError, boundary
from ...machine.counters import count
from ...pictures import Picture
from ...types import StepLora, StepSettings, shown_beside
from ..encoding_cache import EncodingCache
from ..protocol import bounded_identity
from .batches import BatchedPipeline
from .calling import generated_by, raise_if_out_of_memory
from .image_sizes import default_size, fit_area, resized, rounded
from .kinds import PipelinePair, arguments_of
from .lora import StepLoras
from .options import PipelineOptions, check_strength


class DiffusersGenerator:
    """A loaded pipeline, or two that share their weights.

    `folder` is the folder of the model. `interrupted` is called after every sampling step, and the generation
    stops when it returns True. `loras` are the LoRAs of single steps.
    """

    def __init__(
        self,
        pair: PipelinePair,
        identity: str,
        options: PipelineOptions = PipelineOptions(),  # noqa: B008 - frozen
        folder: Path | None = None,
        mask: Picture | None = None,
    ) -> None:
        self.identity, self.folder = identity, folder
        self.interrupted: Callable[[], bool] | None = None
        self._pair, self._mask = pair, mask
        self._beside: tuple[Picture, ...] = ()
        self._lora: StepLora | None = None
        self._lora_strength = 1.0
        self._crops = False
        # Schedulers count their steps, and the encoding cache is not thread-safe.
        self._one_at_a_time = threading.Lock()
        self._size = options.sides
        self._strength = options.strength
        arguments = {
            "num_inference_steps": options.steps,
            pair.kind.guidance: options.guidance,
            "negative_prompt": options.negative,
        }
        self._options = {key: value for key, value in arguments.items() if value is not None}
        encodings = EncodingCache(options.encoding_cache)
        for pipeline in dict.fromkeys((pair.draw, pair.edit)):
            if pipeline is not None:
                pipeline.set_progress_bar_config(disable=True)
                encodings.attach(pipeline)
        self.loras = StepLoras(pair.edit, encodings, options.lora_scale if options.lora else None)

    @property
    def step_settings(self) -> frozenset[str]:
        """Supported settings of a step.

        `denoise` needs an edit that starts from the source image's latents, and `negative` pipelines that use
        a negative prompt at the current guidance.
        """
        taken = {
            "mask": self._pair.kind.mask is not None,
            "reference": self.max_reference_images > 0,
            "denoise": self._pair.kind.edit == "img2img",
            "negative": self._pair.looks_at_negatives(self._options.get(self._pair.kind.guidance)),
            "size": "size" in self.draw_options,
            "lora": self.loras.supported,
        }
        return frozenset(name for name, takes in taken.items() if takes)

    @property
    def max_reference_images(self) -> int:
        """Maximum number of images shown to the pipeline in addition to the image it edits."""
        return self._pair.kind.most_images - 1

    @property
    def image_mark(self) -> str:
        """Notation of an image number in a prompt."""
        return self._pair.kind.mark

    def with_step_settings(self, settings: StepSettings) -> DiffusersGenerator:
        """Return a generator with the same pipelines and lock, and these settings.

        A step's mask replaces the pipeline's. Its LoRA is added to the pipeline's own.

        Raises:
            SettingsError: `denoise` leaves no sampling step, or the LoRA does not fit the pipeline.
            GeneratorError: The LoRA cannot be loaded.
        """
        other = copy(self)
        other._beside = shown_beside(settings)
        if settings.mask is not None:
            other._mask = settings.mask.picture
        if settings.negative is not None:
            other._options = self._options | {"negative_prompt": settings.negative}
        if settings.denoise is not None:
            other._strength = settings.denoise
            check_strength(self._options.get("num_inference_steps"), settings.denoise)
        if settings.sides is not None:
            other._size, other._crops = settings.sides, True
        if settings.lora is not None:
            with self._one_at_a_time:
                self.loras.load(settings.lora)
            other._lora, other._lora_strength = settings.lora, settings.strength
        return other

    def lora_digest(self, name: str) -> str:
        """Return the content digest of a LoRA in the LoRA folder.

        Raises:
            SettingsError: It was not found.
        """
        return self.loras.digest(name)

    @property
    def draw_options(self) -> frozenset[str]:
        """Those of size, steps and guidance that the pipelines support."""
        accepted = set.intersection(
            *(arguments_of(one) for one in (self._pair.draw, self._pair.edit) if one is not None)
        )
        taken = {
            "steps": "num_inference_steps" in accepted,
            "guidance": self._pair.kind.guidance in accepted,
            # Image-to-image generates in the size of its source image, which is scaled to this size.
            "size": "width" in accepted or self._pair.kind.edit == "img2img",
        }
        return frozenset(name for name, takes in taken.items() if takes)

    def with_draw_options(
        self,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        guidance: float | None = None,
    ) -> DiffusersGenerator:
        """Return a generator with the same pipelines and lock, and these options.

        Raises:
            SettingsError: The number of steps leaves none for an edit.
        """
        other, kind = copy(self), self._pair.kind
        if self._pair.kind.edit == "img2img":
            check_strength(steps or self._options.get("num_inference_steps"), self._strength)
        given = {"num_inference_steps": steps, kind.guidance: guidance}
        other._options = self._options | {name: value for name, value in given.items() if value is not None}
        if guidance is not None and guidance > 1 and kind.negative is not None:
            other._options.setdefault("negative_prompt", kind.negative)
        other._size = size or self._size
        named = {"size": size, "steps": steps, "guidance": guidance}
        said = " ".join(f"{name}={value!r}" for name, value in named.items() if value is not None)
        other.identity = bounded_identity(f"{self.identity} drawn with {said}") if said else self.identity
        return other

    def in_batches(self) -> BatchedPipeline | DiffusersGenerator:
        """Return the same pipelines and lock as a generator of several images per call.

        Returns this generator if batching was not tested with its class, or with a mask or additional images.
        """
        plain = self._mask is None and not self._beside and self._lora is None
        batch = self._pair.kind.batch
        return BatchedPipeline(self, batch == "any source") if plain and batch != "none" else self

    @property
    def modules(self) -> list[Any]:
        """The torch modules of the pipelines, for code that moves them between devices.

        They share weights.
        """
        import torch

        return [part for part in self._pair.edit.components.values() if isinstance(part, torch.nn.Module)]

    def area(self, source: Picture | None) -> int:
        """Return the number of pixels of an image generated with this source image."""
        width, height = self._sides(source)
        return width * height

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image from the prompt, or edit `source`.

        Sides are rounded to what the pipeline supports (mostly multiples of 16 pixels). Without an explicit
        size, an edit keeps the size of its source image, scaled down to the area of 1024x1024 if larger.

        Raises:
            GeneratorError: The generation failed.
            Cancelled: `interrupted` returned True.
        """
        return self.draw_together([prompt], source, [seed])[0]

    def draw_together(
        self,
        prompts: Sequence[str],
        source: Picture | Sequence[Picture] | None,
        seeds: Sequence[int],
    ) -> list[Picture]:
        """Generate several images in one call.

        Args:
            prompts: One prompt per image.
            source: No source image, one for all, or one per prompt, all of one size.
            seeds: One seed per image.

        Raises:
            OutOfMemory: Memory does not suffice.
            GeneratorError: The generation failed.
            Cancelled: `interrupted` returned True.
        """
        import torch

        self._stop_if_interrupted()
        mask = self._mask
        several = list(source) if isinstance(source, Sequence) else None
        source = several[0] if several else source if isinstance(source, Picture) else None
        if source is None and self._pair.draw is None:
            if not self._pair.kind.needs_source:
                raise GeneratorError(
                    f"{type(self._pair.edit).__name__} cannot generate from text alone.",
                    "Add an image to the request.",
                )
            white = Picture.white(self._size or default_size(self._pair.edit))
            source, mask = white, white
        if mask is None and self._pair.kind.needs_mask:
            raise GeneratorError(
                f"{type(self._pair.edit).__name__} needs a mask: it repaints a part of an image.",
                "Give a mask that is white where the image may change.",
            )
        pipeline: Any = self._pair.draw if source is None else self._pair.edit
        alone = len(prompts) == 1
        arguments: dict[str, Any] = {"prompt": prompts[0] if alone else list(prompts), **self._options}
        if not alone and "negative_prompt" in arguments:
            arguments["negative_prompt"] = [arguments["negative_prompt"]] * len(prompts)
        arguments |= self._source_arguments(source, arguments_of(pipeline))
        if source is not None and mask is not None and self._pair.kind.mask is not None:
            arguments[self._pair.kind.mask] = resized(mask, source.size).convert("L")
        if several and not alone:
            sides = self._sides(source)
            arguments["image"] = [resized(one, sides) for one in several]
        noise = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        arguments["generator"] = noise[0] if alone else noise
        if "callback_on_step_end" in arguments_of(pipeline):
            arguments["callback_on_step_end"] = self._after_step
        with boundary(GeneratorError, type(pipeline).__name__):
            try:
                loras = self.loras.active(self._lora, self._lora_strength)
                with self._one_at_a_time, loras, torch.inference_mode():
                    self._stop_if_interrupted()
                    return generated_by(pipeline, arguments, len(prompts))
            except RuntimeError as error:
                raise_if_out_of_memory(error, arguments)
                raise

    def _source_arguments(self, source: Picture | None, accepted: set[str]) -> dict[str, Any]:
        shown = [one.image for one in (*((source,) if source else ()), *self._beside)]
        if not shown and self._size is None:
            return {}
        width, height = self._sides(source)
        arguments: dict[str, Any] = {"width": width, "height": height, "max_area": width * height}
        arguments["output_resolution"] = max(32, round((width * height) ** 0.5 / 32) * 32)
        if shown:
            arguments["image"] = shown if len(shown) > 1 else shown[0]
        if source is not None and self._pair.kind.edit == "img2img":
            # The generation starts from the source image's latents, so both have the same size.
            arguments["image"] = resized(source, (width, height), self._crops)
            arguments["strength"] = self._strength
        return {key: value for key, value in arguments.items() if key in accepted}

    def _sides(self, source: Picture | None) -> tuple[int, int]:
        size = self._size or fit_area(source.size if source else default_size(self._pair.edit))
        return rounded(size, self._pair.edit)

    def _after_step(self, pipeline: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        count(sampler_steps=1)
        self._stop_if_interrupted()
        return tensors

    def _stop_if_interrupted(self) -> None:
        if self.interrupted is not None and self.interrupted():
            raise Cancelled("The generation was stopped.")

"""Generates with a diffusers pipeline: text-to-image for the first step, edits of the last image afterwards.

A pipeline is used as opened (opening.py), without a wrapper class per kind. The differences between kinds are
in a table (kinds.py). Noise comes from a CPU generator, so a seed gives the same noise on every device. A
pipeline that can only edit (Qwen-Image-Edit) gets a white image as long as no source image exists.

A LoRA is an untrusted file: safetensors only, and never without effect. diffusers loads the weights of a file
that it recognizes, and only logs if there are none. The adapter is therefore checked after loading.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from ....core.errors import (
    Cancelled,
    GeneratorError,
    InterleaveError,
    OutOfMemory,
    SettingsError,
    boundary,
    is_out_of_memory,
)
from ....core.files.bounded_reader import parse_json
from ....core.pictures import Picture
from ....core.seams.generator import Generator
from ....core.types import StepLora, StepSettings, shown_beside
from ....core.types.values import bounded_identity
from ...checkpoints.model_folder import check_patterns
from .folder import file_digest
from .kinds import PipelineOptions, PipelinePair, arguments_of, check_strength

ADAPTER = "lora"
SUFFIX = ".safetensors"
METADATA = "lora_adapter_metadata"
"""Metadata key under which diffusers stores peft's configuration."""
MAX_SOURCE_AREA = 1024 * 1024


class DiffusersGenerator(Generator):
    """A loaded pipeline, or two that share their weights.

    `folder` is the folder of the model. `loras` are the LoRAs of single steps.
    """

    def __init__(
        self,
        pair: PipelinePair,
        identity: str,
        options: PipelineOptions = PipelineOptions(),  # noqa: B008 - frozen
        folder: Path | None = None,
        mask: Picture | None = None,
    ) -> None:
        self._identity, self.folder = identity, folder
        self._pair, self._mask = pair, mask
        self._beside: tuple[Picture, ...] = ()
        self._lora: StepLora | None = None
        self._lora_strength = 1.0
        self._crops = False
        # Schedulers count their steps.
        self._one_at_a_time = threading.Lock()
        self._size = options.sides
        self._strength = options.strength
        arguments = {
            "num_inference_steps": options.steps,
            pair.kind.guidance: options.guidance,
            "negative_prompt": options.negative,
        }
        self._options = {key: value for key, value in arguments.items() if value is not None}
        for pipeline in dict.fromkeys((pair.draw, pair.edit)):
            if pipeline is not None:
                pipeline.set_progress_bar_config(disable=True)
        self.loras = StepLoras(pair.edit, options.lora_scale if options.lora else None)

    @property
    def identity(self) -> str:
        """Identity of the model, its options and its device."""
        return self._identity

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
        if said:
            other._identity = bounded_identity(f"{self.identity} drawn with {said}")
        return other

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
        import torch

        self._stop_if_interrupted()
        mask = self._mask
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
        accepted = arguments_of(pipeline)
        arguments: dict[str, Any] = {"prompt": prompt, **self._options}
        arguments |= self._source_arguments(source, accepted)
        if source is not None and mask is not None and self._pair.kind.mask is not None:
            arguments[self._pair.kind.mask] = resized(mask, source.size).convert("L")
        arguments["generator"] = torch.Generator("cpu").manual_seed(seed)
        if "callback_on_step_end" in accepted:
            arguments["callback_on_step_end"] = self._after_step
        with boundary(GeneratorError, type(pipeline).__name__):
            try:
                loras = self.loras.active(self._lora, self._lora_strength)
                with self._one_at_a_time, loras, torch.inference_mode():
                    self._stop_if_interrupted()
                    return generated_by(pipeline, arguments)
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
        self._stop_if_interrupted()
        return tensors

    def _stop_if_interrupted(self) -> None:
        if self.interrupted is not None and self.interrupted():
            raise Cancelled("The generation was stopped.")


def fit_area(size: tuple[int, int]) -> tuple[int, int]:
    """Return a size scaled down to MAX_SOURCE_AREA pixels, if it is larger."""
    width, height = size
    scale = min(1.0, (MAX_SOURCE_AREA / (width * height)) ** 0.5)
    return max(1, round(width * scale)), max(1, round(height * scale))


def default_size(pipeline: Any) -> tuple[int, int]:
    """Return the size that a pipeline generates without an explicit one."""
    side = getattr(pipeline, "default_sample_size", 128) * getattr(pipeline, "vae_scale_factor", 8)
    return side, side


def rounded(size: tuple[int, int], pipeline: Any) -> tuple[int, int]:
    """Return a size with sides rounded to what a pipeline supports."""
    # Twice the VAE's factor: transformers use 2x2 patches of latents, and UNets halve them at least once.
    multiple = 2 * getattr(pipeline, "vae_scale_factor", 8)
    width, height = (max(multiple, round(side / multiple) * multiple) for side in size)
    return width, height


def resized(picture: Picture, size: tuple[int, int], crops: bool = False) -> Any:
    """Return the PIL image of a picture in another size.

    `crops` keeps its shape, and crops what does not fit. Otherwise it is stretched.
    """
    from PIL import Image, ImageOps

    if picture.size == size:
        return picture.image
    if crops:
        return ImageOps.fit(picture.image, size, Image.Resampling.LANCZOS)
    return picture.image.resize(size, Image.Resampling.LANCZOS)


def generated_by(pipeline: Any, arguments: dict[str, Any]) -> Picture:
    """Call a pipeline, and return its image.

    Floats are requested if the pipeline supports them, because bytes do not show that a model overflowed.
    diffusers' own function converts them to bytes.

    Args:
        pipeline: The pipeline.
        arguments: The arguments of its call.

    Raises:
        GeneratorError: A pixel is not finite, the safety checker rejected the image, or it is missing.
    """
    import numpy as np
    from diffusers.image_processor import VaeImageProcessor

    name = type(pipeline).__name__
    if "output_type" in arguments_of(pipeline):
        arguments = {**arguments, "output_type": "np"}
    output = pipeline(**arguments)
    images = output.images
    if isinstance(images, np.ndarray):
        if not np.isfinite(images).all():
            raise GeneratorError(
                f"{name} returned pixels that are NaN or infinite.",
                "The model overflowed: use dtype=bfloat16 or dtype=float32.",
            )
        images = VaeImageProcessor.numpy_to_pil(images)
    if any(getattr(output, "nsfw_content_detected", None) or ()):
        raise GeneratorError(
            f"{name} returned a black image: its safety checker rejected the result.",
            "Change the prompt or the seed.",
        )
    if len(images) != 1:
        raise GeneratorError(f"{name} returned {len(images)} images for one prompt.")
    return Picture(images[0])


def raise_if_out_of_memory(error: RuntimeError, arguments: Mapping[str, Any]) -> None:
    """Raise an error with advice if memory did not suffice, and free the cached GPU memory.

    Args:
        error: The error of torch.
        arguments: The arguments of the pipeline.

    Raises:
        OutOfMemory: The error is about memory.
    """
    import torch

    if not is_out_of_memory(error):
        return
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    width, height = arguments.get("width"), arguments.get("height")
    area = f"{width}x{height}" if width else "the pipeline's own size"
    reason = " ".join(str(error).split())[:200]
    raise OutOfMemory(
        f"Out of memory while generating at {area} ({reason}).",
        "Reduce the size, set dtype=bfloat16 or device=cpu, or use a smaller model.",
    ) from error


def lay_over(pipeline: Any, file: Path, scale: float) -> str:
    """Apply a LoRA in a safetensors file to a pipeline.

    Args:
        pipeline: Loaded pipeline.
        file: LoRA file.
        scale: Strength of the LoRA.

    Returns:
        Content digest and scale, for the identity.

    Raises:
        SettingsError: The file is not a LoRA, does not fit the pipeline, or the pipeline does not support
            LoRAs.
    """
    digest = _load(pipeline, file.expanduser(), ADAPTER)
    with boundary(GeneratorError, f"Applying {file.name!r} to {type(pipeline).__name__}"):
        pipeline.set_adapters([ADAPTER], [scale])
    return f"{digest}*{scale:g}"


class StepLoras:
    """The LoRAs that single steps add to a pipeline.

    Each is loaded once, and is active only while an image of its step is generated. Callers hold the lock of
    the pipeline.

    Args:
        pipeline: The pipeline.
        own_scale: Strength of the pipeline's own LoRA. `None` without one.

    Attributes:
        find: Returns the file of a LoRA by its name, `None` for an unknown one.
        where: Name of the folder, for messages.
    """

    def __init__(self, pipeline: Any, own_scale: float | None) -> None:
        self._pipeline, self._own_scale = pipeline, own_scale
        self._loaded: dict[str, str] = {}
        self.find: Callable[[str], Path | None] | None = None
        self.where = "the LoRA folder"

    @property
    def supported(self) -> bool:
        """Whether the pipeline's class supports LoRAs."""
        return hasattr(self._pipeline, "load_lora_weights")

    def digest(self, name: str) -> str:
        """Return the content digest of a LoRA.

        Raises:
            SettingsError: The LoRA was not found, or no folder was given.
        """
        return file_digest(self._file(name))

    def load(self, lora: StepLora) -> None:
        """Load a LoRA, if it is not loaded yet. It is not active afterwards.

        Raises:
            SettingsError: It was not found, does not fit the pipeline, or changed since the run began.
            GeneratorError: Loading failed.
        """
        file = self._file(lora.name)
        digest = file_digest(file)
        if digest != lora.digest:
            raise SettingsError(
                f"The LoRA {lora.name!r} has changed since the run began.", "Start the run again."
            )
        if digest in self._loaded:
            return
        adapter = f"step_{hashlib.blake2b(digest.encode(), digest_size=6).hexdigest()}"
        try:
            _load(self._pipeline, file, adapter)
        except InterleaveError:
            self._discard(adapter)
            raise
        self._loaded[digest] = adapter
        self._restore()

    @contextmanager
    def active(self, lora: StepLora | None, strength: float) -> Iterator[None]:
        """Apply a loaded LoRA in addition to the pipeline's own. `None` changes nothing."""
        if lora is None or lora.digest is None:
            yield
            return
        own = {} if self._own_scale is None else {ADAPTER: self._own_scale}
        adapters = own | {self._loaded[lora.digest]: strength}
        try:
            self._pipeline.enable_lora()
            self._pipeline.set_adapters(list(adapters), list(adapters.values()))
            yield
        finally:
            self._restore()

    def _discard(self, adapter: str) -> None:
        """Remove what a failed attempt to load a LoRA left in the pipeline, which would change all images."""
        if adapter in _adapters(self._pipeline):
            self._pipeline.delete_adapters(adapter)
        if _adapters(self._pipeline):
            self._restore()

    def _restore(self) -> None:
        """Activate the pipeline's own LoRA alone, or none."""
        if self._own_scale is None:
            self._pipeline.disable_lora()
        else:
            self._pipeline.set_adapters([ADAPTER], [self._own_scale])

    def _file(self, name: str) -> Path:
        if self.find is None:
            raise SettingsError(
                f"The LoRA {name!r} cannot be found, because no LoRA folder is set.",
                "Set lora_folder to the folder of the LoRAs.",
            )
        file = self.find(name)
        if file is None:
            raise SettingsError(
                f"The LoRA {name!r} does not exist in {self.where}.", "Put it there, or change the plan."
            )
        return file


def lora_in(folder: Path, name: str) -> Path | None:
    """Return the file of a LoRA below a folder, `None` if there is none. Links may not lead out of it."""
    root = folder.expanduser().resolve()
    file = (root / name.replace("\\", "/")).resolve()
    return file if file.is_relative_to(root) and file.suffix == SUFFIX and file.is_file() else None


def _load(pipeline: Any, file: Path, adapter: str) -> str:
    """Load a LoRA under a name, check that the pipeline uses it, and return its content digest."""
    name = type(pipeline).__name__
    if not hasattr(pipeline, "load_lora_weights"):
        raise SettingsError(f"{name} does not support LoRAs.", "Omit lora.")
    if file.suffix != SUFFIX or not file.is_file():
        raise SettingsError(
            f"{str(file)[:300]!r} is not a LoRA: expected a {SUFFIX} file.", "Give the path of the LoRA file."
        )
    try:
        import peft  # noqa: F401 - diffusers applies LoRAs with it
    except ImportError as error:
        raise SettingsError(f"A LoRA needs peft ({error}).", "Run: pip install peft") from error
    digest = file_digest(file)
    _check_metadata(file)
    with boundary(GeneratorError, f"Applying {file.name!r} to {name}"):
        try:
            pipeline.load_lora_weights(
                str(file.parent),
                weight_name=file.name,
                adapter_name=adapter,
                use_safetensors=True,
                local_files_only=True,
            )
        except (ValueError, KeyError) as error:
            raise _foreign(file, name, error) from error
        except RuntimeError as error:
            if "size mismatch" not in str(error):
                raise
            raise _foreign(file, name) from error
        if adapter not in _adapters(pipeline):
            raise _foreign(file, name)
    return digest


def _adapters(pipeline: Any) -> set[str]:
    return {one for part in pipeline.get_list_adapters().values() for one in part}


def _check_metadata(file: Path) -> None:
    """Check the patterns of the adapter's configuration in the file's header, which a library will match.

    Raises:
        SettingsError: A pattern could take very long, or the header is unreadable.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as weights:
            found = (weights.metadata() or {}).get(METADATA)
    except (SafetensorError, OSError) as error:
        raise SettingsError(f"Cannot read {file.name!r} ({error}).", "Download the file again.") from error
    if found is not None:
        where = f"The header of {file.name!r}"
        check_patterns(parse_json(found, SettingsError, where), SettingsError, where)


def _foreign(file: Path, name: str, error: Exception | None = None) -> SettingsError:
    reason = f" ({str(error).splitlines()[0][:200]})" if error and str(error) else ""
    return SettingsError(
        f"Nothing in {file.name!r} fits {name}{reason}.", "Check that the LoRA was made for this model."
    )

"""Generator that uses any diffusion model loaded by the host.

Images are bit-identical to those of the official workflow of the model family. The differences between
families are in edit_modes.py, the sampling is here, and parts replaced by the user's graph are in
step_options.py.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from ...backend.core.errors import (
    Cancelled,
    GeneratorError,
    InterleaveError,
    SettingsError,
    boundary,
    is_out_of_memory,
)
from ...backend.core.pictures import Picture
from ...backend.core.seams.generator import Generator
from ...backend.core.types import StepLora, StepSettings, shown_beside
from ...backend.core.types.values import bounded_identity
from ...backend.models.generators.pipelines.folder import file_digest
from .. import host
from ..inputs.images import to_batch, to_mask, to_pictures
from .edit_mode import EditContext, SamplingStart, size_of
from .edit_modes import edit_mode
from .families.family import NOISE
from .families.registry import chosen_family, edit_choice
from .identity import weights_identity
from .settings import FLUX2, SamplingSettings, on_grid
from .step_options import StepOptions

WHERE = "Step Generator"
MISMATCH = (
    "mat1 and mat2",
    "size mismatch",
    "shape",
    "dimension",
    "channels",
    "pooled",
    "normalized",
    "same size",
)
TEXTS = ("denoise", "negative")
"""Step settings that are also sampling settings."""


@dataclass(frozen=True)
class LoadedModels:
    """MODEL, CLIP and VAE from the host's loaders."""

    model: Any
    clip: Any
    vae: Any


class ComfyGenerator(Generator):
    """Generates images with the models loaded by the host.

    Args:
        loaded: The models.
        settings: Sampling settings.
        edit: Edit mode, one of `EDIT_CHOICES`.
        references: Images that the model sees at every step.
        options: Parts replaced by the user's graph.

    Raises:
        SettingsError: The edit mode, the VAE or a setting does not fit the model.
    """

    def __init__(
        self,
        loaded: LoadedModels,
        settings: SamplingSettings,
        edit: str = "auto",
        references: Sequence[Picture] = (),
        options: StepOptions = StepOptions(),  # noqa: B008 - frozen
    ) -> None:
        model, clip, vae = loaded.model, loaded.clip, loaded.vae
        traits = host.model_traits(model)
        self._choice = edit_choice(traits, edit)
        self._mode = edit_mode(self._choice, traits)
        family = chosen_family(traits.name, self._choice)
        host.check_vae(traits, vae, by_latents=family is None or family.vae_is_checked)
        # Unchanged texts do not load the text encoder again.
        self._encoded = lru_cache(maxsize=MAX_TEXTS)(host.encode_text)
        self._one_at_a_time = threading.Lock()
        self._options = options
        self._loras = StepLoras(model, clip)
        self._crops = False
        self._context = EditContext(model, clip, vae, traits, settings, self._encode_text, options.negative)
        self._references = tuple(references)
        self._mode.check(self._context, len(self._references))
        options.check(self._context)
        if self._mode.patches_model and options.guider is not None:
            raise SettingsError(
                f"Step Options: the guider would ignore the model that edit method '{self._choice}' patches.",
                "Disconnect the guider.",
            )

    @property
    def identity(self) -> str:
        """Readable identity of everything that determines an image; computed once."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        context = self._context
        weights = [
            weights_identity(part) for part in (context.model, context.clip.patcher, context.vae.patcher)
        ]
        clip = (
            f"clip-layer={context.clip.layer_idx} {getattr(context.clip, 'tokenizer_options', None) or ''}"
        ).strip()
        guidance = self._mode.second_guidance(context)
        parts = [
            f"comfyui {' '.join(weights)} {clip} {context.settings.model_dump_json()}",
            f"edit={self._choice!r} guidance={guidance}",
            *(f"reference={picture.digest}" for picture in self._references),
            *([f"options {self._options.identity}"] if self._options.identity else []),
        ]
        return bounded_identity(" ".join(parts))

    @property
    def step_settings(self) -> frozenset[str]:
        """Settings of single steps that are supported.

        `mask` and `size` always, `denoise` for image to image, `negative` if the negative prompt is used,
        `reference` if the model takes another image, `lora` unless a connected guider brings its own model.
        """
        given = self._options
        takes_denoise = self._choice == NOISE
        takes_negative = given.negative is None and given.guider is None and not self._context.unguided
        taken = {
            "mask": True,
            "denoise": takes_denoise,
            "negative": takes_negative,
            "reference": self.max_reference_images > 0,
            "size": True,
            "lora": given.guider is None,
        }
        return frozenset(name for name, takes in taken.items() if takes)

    @property
    def max_reference_images(self) -> int:
        """Maximum number of further images, in addition to the source image and the references."""
        return self._mode.max_images - 1 - len(self._references)

    @property
    def own_references(self) -> int:
        """Number of connected references, which the model sees before further images."""
        return len(self._references)

    def with_step_settings(self, settings: StepSettings) -> ComfyGenerator:
        """Return a generator with these settings that shares weights, lock and cache.

        The mask of a step replaces the connected one. Its reference and earlier images follow the references.
        Its LoRA is applied on top of the connected model and CLIP, with the host's own loader.

        Raises:
            SettingsError: The size is too small, or the LoRA was not found or does not fit the model.
            GeneratorError: The LoRA cannot be loaded.
        """
        other = copy(self)
        vars(other).pop("_identity", None)
        given = {name: one for name, one in settings.of_draw.items() if name in TEXTS}
        if settings.sides is not None:
            if 0 in on_grid(settings.sides, self._context.grid):
                raise SettingsError(
                    f"The size {settings.size} is too small: this model's images have sides in multiples of "
                    f"{self._context.grid} pixels.",
                    "Set a larger size.",
                )
            other._crops = True
            given |= dict(zip(("width", "height"), settings.sides, strict=True))
        other._context = replace(self._context, settings=self._context.settings.model_copy(update=given))
        if settings.lora is not None:
            with self._one_at_a_time:
                model, clip = self._loras.applied(settings.lora, settings.strength)
            # The bound method of the copy encodes with the CLIP of the copy.
            other._context = replace(other._context, model=model, clip=clip, encode_text=other._encode_text)
        if settings.mask and settings.mask.picture:
            other._options = replace(self._options, mask=to_mask(settings.mask.picture.image))
        other._references = (*self._references, *shown_beside(settings))
        return other

    def lora_digest(self, name: str) -> str:
        """Return the content digest of a LoRA in the host's folders.

        Raises:
            SettingsError: It was not found.
        """
        return lora_digest(name)

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image from text at the set size, or edit `source` at its shape and the set area.

        With a step's own size, the source is cropped to the shape of that size.

        Raises:
            GeneratorError: The models failed or do not fit into memory.
            Cancelled: The user pressed cancel.
        """
        context = self._context
        try:
            with self._one_at_a_time, host.drawing(), torch.inference_mode():
                references = [to_batch(picture.image) for picture in self._references]
                pixels = None if source is None else self._cropped(to_batch(source.image))
                mask = self._options.noise_mask(pixels)
                start = self._mode.start(context, prompt, pixels, references)
                start = self._options.started(context, start, pixels)
                sampled = self._sampling(start, mask).sample(start.latent, seed)
                decoded = context.vae.decode(sampled)
                drawn = decoded.reshape(-1, *decoded.shape[-3:])[:1]
                return to_pictures(self._options.pasted(context, start, drawn, pixels))[0]
        except (Cancelled, GeneratorError):
            raise
        except InterleaveError as error:
            raise GeneratorError(error.message, error.hint) from error
        except Exception as error:
            raise _explained(error, context.traits.name) from error

    def _cropped(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the source at the step's own size, if it has one."""
        size = on_grid(self._context.settings.size, self._context.grid)
        if not self._crops or size_of(pixels) == size:
            return pixels
        return host.scale(pixels, size, "lanczos", "center")

    def _sampling(self, start: SamplingStart, mask: torch.Tensor | None) -> host.Sampling:
        context, given = self._context, self._options
        second = self._mode.second_guidance(context) or 1.0
        guidance = host.Guidance(start.positive, start.negative, context.settings.cfg, start.middle, second)
        guider = (
            guidance.guider(start.model or context.model)
            if given.guider is None
            else host.with_conditionings(given.guider, guidance)
        )
        sampler = context.settings.sampler if given.sampler is None else given.sampler
        return host.Sampling(guider, sampler, self._sigmas(start), given.noise, mask)

    def _sigmas(self, start: SamplingStart) -> torch.Tensor:
        if self._options.sigmas is not None:
            return host.last_sigmas(self._options.sigmas, start.denoise)
        settings = self._context.settings
        if settings.scheduler != FLUX2:
            return host.model_sigmas(
                self._context.model, settings.sampler, settings.scheduler, settings.steps, start.denoise
            )
        return host.flux2_sigmas(int(settings.steps / start.denoise), start.size)[-(settings.steps + 1) :]

    def _encode_text(self, text: str) -> list:
        return self._encoded(self._context.clip, text)


def _explained(error: Exception, model: str) -> GeneratorError:
    """Return the host's error as one with advice."""
    message = " ".join(str(error).split()) or type(error).__name__
    if is_out_of_memory(error):
        hint = "Use a smaller width and height, or start ComfyUI with --lowvram."
        return GeneratorError(f"{WHERE}: the image does not fit into memory ({message[:200]}).", hint)
    if isinstance(error, (RuntimeError, ValueError, KeyError, AttributeError, TypeError)) and any(
        sign in message.lower() for sign in MISMATCH
    ):
        return GeneratorError(
            f"{WHERE}: {model} failed with {type(error).__name__}: {message[:300].rstrip('.')}.",
            "Usually the CLIP or VAE belongs to another model, or the CLIP was loaded with another type.",
        )
    return GeneratorError(f"{WHERE}: {type(error).__name__}: {message.rstrip('.')}.")


MAX_TEXTS = 4
"""Maximum number of texts whose conditionings are kept."""
MAX_KEPT = 4
"""Maximum number of patched models that are kept. The weights of their LoRAs are in RAM."""


class StepLoras:
    """Patched copies of a model and a CLIP, which share the weights of the originals. Not thread-safe."""

    def __init__(self, model: Any, clip: Any) -> None:
        self._model, self._clip = model, clip
        self._kept = lru_cache(maxsize=MAX_KEPT)(self._loaded)

    def applied(self, lora: StepLora, strength: float) -> tuple[Any, Any]:
        """Return model and CLIP with a LoRA, on top of what is applied to them already.

        Raises:
            SettingsError: The LoRA was not found, changed since the run began, or does not fit the model.
            GeneratorError: The host cannot load it.
        """
        if lora_digest(lora.name) != lora.digest:
            raise SettingsError(
                f"The LoRA {lora.name!r} has changed since the run began.", "Queue the workflow again."
            )
        return self._kept(lora.name, lora.digest, strength)

    def _loaded(self, name: str, digest: str, strength: float) -> tuple[Any, Any]:
        with boundary(GeneratorError, f"Loading the LoRA {name!r}"):
            model, clip = host.with_lora(self._model, self._clip, host.lora_name(name) or name, strength)
        changed = _patches(model) + _patches(clip.patcher) > _patches(self._model) + _patches(
            self._clip.patcher
        )
        if strength and not changed:
            # The host only logs this.
            raise SettingsError(
                f"Nothing in the LoRA {name!r} fits the connected model and CLIP.",
                "Check that the LoRA was made for this model.",
            )
        return model, clip


def lora_digest(name: str) -> str:
    """Return the content digest of a LoRA in the host's folders.

    Raises:
        SettingsError: It was not found.
    """
    return file_digest(_file(name))


def _file(name: str) -> Path:
    file = host.lora_file(name)
    if file is None:
        raise SettingsError(
            f"The LoRA {name[:200]!r} was not found.",
            "Put its .safetensors file into models/loras and press R, or choose another one in Edit Plan.",
        )
    return file


def _patches(patcher: Any) -> int:
    return sum(len(patches) for patches in patcher.patches.values())

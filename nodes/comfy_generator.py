"""Any diffusion model that the host has loaded, as the backend's Generator.

Decision: an image is drawn exactly as the official FLUX.2 klein graphs draw it, to the bit: text-to-image without a
source, and with one an edit that hands the source to the model as a reference latent. Models that ignore reference
latents do so silently, hence the edit mode is a setting, and `auto` knows only models that leave no doubt.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Literal

import torch
from pydantic import Field

from ..backend.errors import GeneratorError, SettingsError, boundary
from ..backend.pictures import Picture
from ..backend.types import Value
from . import host
from .images import to_batch, to_pictures
from .weights_identity import weights_identity

EditMode = Literal["reference latents", "image to image"]
FLUX2 = "flux2"
GRID = 16

EDITS_BY_REFERENCE = ("Flux2", "Omnigen2")
"""Model classes of the host that are all trained to edit by reference latents."""
EDITS_BY_NOISE = ("BaseModel", "SDXL", "SDXLRefiner", "SD3", "AuraFlow", "PixArt", "HunyuanDiT", "Chroma")
"""Model classes of the host that none of them reads reference latents ("BaseModel" is Stable Diffusion 1 and 2)."""


class DrawSettings(Value):
    """How to sample; field descriptions are the node's tooltips."""

    steps: int = Field(default=4, ge=1, le=1000, description="Sampling steps; distilled klein models need 4.")
    cfg: float = Field(
        default=1.0,
        ge=0.0,
        le=100.0,
        description="Guidance; 1 for distilled models, about 5 for base models.",
    )
    sampler: str = "euler"
    scheduler: str = FLUX2
    width: int = Field(default=1024, ge=GRID, le=16384)
    height: int = Field(default=1024, ge=GRID, le=16384)
    edit: EditMode = "reference latents"
    denoise: float = Field(
        default=0.75, gt=0.0, le=1.0, description="Image to image only: share of the source that is redrawn."
    )
    negative: str = ""


def edit_mode_of(model_class: str, chosen: str) -> EditMode:
    """The edit mode for a model class of the host; raises SettingsError if `auto` cannot know it."""
    if chosen == "reference latents" or (chosen == "auto" and model_class in EDITS_BY_REFERENCE):
        return "reference latents"
    if chosen == "image to image" or (chosen == "auto" and model_class in EDITS_BY_NOISE):
        return "image to image"
    raise SettingsError(
        f"Whether this {model_class} model edits by reference latents cannot be told from the model.",
        "Set 'edit' to 'reference latents' for an edit model (Kontext, Qwen-Image-Edit...), else to 'image to image'.",
    )


def edit_size(source: tuple[int, int], area: int) -> tuple[int, int]:
    """Width and height to which a source is scaled before an edit: the same shape with `area` pixels, as the templates.

    A source that the edit would give back at its own size stays as it is: scaling it again at every step of a story
    would blur and shift it a little more each time.
    """
    factor = math.sqrt(area / (source[0] * source[1]))
    scaled = round(source[0] * factor), round(source[1] * factor)
    return source if on_grid(scaled) == source else scaled


def on_grid(size: tuple[int, int]) -> tuple[int, int]:
    """Width and height cut down to multiples of GRID pixels."""
    return size[0] // GRID * GRID, size[1] // GRID * GRID


class ComfyGenerator:
    """Draws with MODEL, CLIP and VAE of the host."""

    def __init__(self, model: Any, clip: Any, vae: Any, settings: DrawSettings) -> None:
        self._model, self._clip, self._vae = model, clip, vae
        self._settings = settings

    @cached_property
    def identity(self) -> str:
        """Weights and settings that make the image, readable; computed once."""
        weights = [weights_identity(part) for part in (self._model, self._clip.patcher, self._vae.patcher)]
        layer = getattr(self._clip, "layer_idx", None)
        return f"comfyui {' '.join(weights)} clip-layer={layer} {self._settings.model_dump_json()}"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Text-to-image at the set size, or an edit of `source` at its shape and the set area. Raises GeneratorError."""
        with boundary(GeneratorError, "Step Generator"), host.drawing(), torch.inference_mode():
            pixels = None if source is None else to_batch(source.image)
            size, latent, conditioning = self._prepare(prompt, pixels)
            sampled = host.sample(
                self._model,
                conditioning,
                self._settings.cfg,
                self._settings.sampler,
                self._sigmas(size, edit=source is not None),
                latent,
                seed,
            )
            decoded = self._vae.decode(sampled)
            return to_pictures(decoded.reshape(-1, *decoded.shape[-3:])[:1])[0]

    def _prepare(
        self, prompt: str, source: torch.Tensor | None
    ) -> tuple[tuple[int, int], torch.Tensor, tuple[list, list]]:
        """Size for the noise schedule, latent to start from, and both conditionings."""
        settings = self._settings
        positive = host.encode_text(self._clip, prompt)
        # Without guidance the negative is never looked at; the templates of distilled models leave it empty so.
        unguided = math.isclose(settings.cfg, 1.0)
        negative = host.zero_out(positive) if unguided else host.encode_text(self._clip, settings.negative)
        if source is None:
            size = settings.width, settings.height
            return size, host.empty_latent(self._model, size), (positive, negative)
        size = edit_size((source.shape[2], source.shape[1]), settings.width * settings.height)
        encoded = self._vae.encode(host.scale(source, size))
        if settings.edit == "image to image":
            return size, encoded, (positive, negative)
        positive, negative = (host.add_reference(text, encoded) for text in (positive, negative))
        return size, host.empty_latent(self._model, size), (positive, negative)

    def _sigmas(self, size: tuple[int, int], edit: bool) -> torch.Tensor:
        settings = self._settings
        share = settings.denoise if edit and settings.edit == "image to image" else 1.0
        if settings.scheduler != FLUX2:
            return host.model_sigmas(self._model, settings.sampler, settings.scheduler, settings.steps, share)
        return host.flux2_sigmas(int(settings.steps / share), size)[-(settings.steps + 1) :]

"""Any diffusion model that the host has loaded, as the backend's Generator.

Decision: an image is drawn exactly as the official FLUX.2 klein graphs draw it, to the bit: text-to-image without a
source, and with one an edit that hands the source to the model as a reference latent.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch

from ..backend.errors import GeneratorError, boundary
from ..backend.pictures import Picture
from . import host
from .draw_settings import FLUX2, DrawSettings, Size, edit_size, on_grid
from .images import to_batch, to_pictures
from .weights_identity import weights_identity


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
    ) -> tuple[Size, torch.Tensor, tuple[list, list]]:
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
        encoded = self._vae.encode(cut_to_grid(host.scale(source, size)))
        if settings.edit == "image to image":
            return size, encoded, (positive, negative)
        positive, negative = (host.add_reference(text, encoded) for text in (positive, negative))
        return size, host.empty_latent(self._model, size), (positive, negative)

    def _sigmas(self, size: Size, edit: bool) -> torch.Tensor:
        settings = self._settings
        share = settings.denoise if edit and settings.edit == "image to image" else 1.0
        if settings.scheduler != FLUX2:
            return host.model_sigmas(self._model, settings.sampler, settings.scheduler, settings.steps, share)
        return host.flux2_sigmas(int(settings.steps / share), size)[-(settings.steps + 1) :]


def cut_to_grid(pixels: torch.Tensor) -> torch.Tensor:
    """The middle of an image `[B, H, W, C]`, sides cut down to multiples of GRID, as the host's FLUX.2 VAE cuts it."""
    height, width = pixels.shape[1:3]
    kept_width, kept_height = on_grid((width, height))
    top, left = (height - kept_height) // 2, (width - kept_width) // 2
    return pixels[:, top : top + kept_height, left : left + kept_width]

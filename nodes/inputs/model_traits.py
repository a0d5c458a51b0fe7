"""Properties of a loaded image model as plain values.

The host adapter fills them in, so the way a step is generated can be decided, and tested, without the host.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelTraits:
    """Properties of a loaded model of the host that are known without running it."""

    name: str
    """Name of the model's class in the host."""
    latent_channels: int = 4
    latent_dimensions: int = 2
    pixels_per_latent: int = 8
    text_width: int | None = None
    """Length of the text vectors that the model reads, `None` if its configuration does not state it."""
    distilled_guidance: bool = False
    """Whether it has a guidance input in addition to cfg."""
    image_features: bool = False
    """Whether it reads image features (Z-Image Omni)."""
    timestep_zero: bool = False
    """Whether its file states the reference method (Qwen-Image-Edit-2511)."""
    layered: bool = False
    """Whether it generates several layers (Qwen-Image-Layered)."""

    @property
    def is_flux2(self) -> bool:
        """Whether it is a FLUX.2 model."""
        return self.name == "Flux2"

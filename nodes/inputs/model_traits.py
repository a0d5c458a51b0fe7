"""What the nodes know of a loaded image model, as plain values.

Decision: filled in by the host adapter and read by everything else, so that how a step is drawn can be
decided, and tested, without the host.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelTraits:
    """What can be read from a loaded model of the host without running it."""

    name: str
    """Class of the model in the host."""
    latent_channels: int = 4
    latent_dimensions: int = 2
    pixels_per_latent: int = 8
    text_width: int | None = None
    """Length of the text encoder's vectors that the model reads; None where its configuration does not
    say."""
    distilled_guidance: bool = False
    """It has an input for guidance beside cfg."""
    image_features: bool = False
    """Z-Image Omni: it reads image features."""
    timestep_zero: bool = False
    """Qwen-Image-Edit-2511: its file says how references are laid out."""
    layered: bool = False
    """Qwen-Image-Layered: it draws several layers."""

    @property
    def is_flux2(self) -> bool:
        return self.name == "Flux2"

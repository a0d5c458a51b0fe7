"""How a step is drawn, as far as that can be said without the host: settings, edit mode and the size of an edit.

Decision: models that ignore reference latents do so silently, hence the edit mode is a setting, and `auto` knows only
models that leave no doubt. Sizes are chosen so that a story of many edits is scaled at its first step at most.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from ..backend.errors import SettingsError
from ..backend.types import Value

EditMode = Literal["reference latents", "image to image"]
EDIT_MODES = ("auto", "reference latents", "image to image")
FLUX2 = "flux2"
GRID = 16
Size = tuple[int, int]

EDITS_BY_REFERENCE = ("Flux2", "Omnigen2")
"""Model classes of the host that are all trained to edit by reference latents."""
EDITS_BY_NOISE = ("BaseModel", "SDXL", "SDXLRefiner", "SD3", "AuraFlow", "PixArt", "HunyuanDiT", "Chroma")
"""Model classes of the host of which none reads reference latents ("BaseModel" is Stable Diffusion 1 and 2)."""


class DrawSettings(Value):
    """How to sample; field descriptions are the node's tooltips."""

    steps: int = Field(
        default=4,
        ge=1,
        le=1000,
        description="Sampling steps: 4 for distilled klein models, about 20 for base ones.",
    )
    cfg: float = Field(
        default=1.0, ge=0.0, le=100.0, description="Guidance: 1 for distilled models, about 5 for base ones."
    )
    sampler: str = "euler"
    scheduler: str = FLUX2
    width: int = Field(default=1024, ge=GRID, le=16384, description="Width in pixels.")
    height: int = Field(
        default=1024,
        ge=GRID,
        le=16384,
        description="Height in pixels. An edit keeps its source's shape and takes this many pixels in all.",
    )
    edit: EditMode = "reference latents"
    denoise: float = Field(
        default=0.75, gt=0.0, le=1.0, description="Image to image only: share of the source that is redrawn."
    )
    negative: str = Field(default="", description="What must not appear; used only if cfg is not 1.")


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


def edit_size(source: Size, area: int) -> Size:
    """Width and height to which a source is scaled before an edit: its shape with `area` pixels, as the templates do.

    A source that may be the result of such an edit stays as it is: scaling it again at every step of a story would blur
    and shift it a little more each time. (A scaled side is rounded to a pixel, then cut down by less than GRID.)
    """
    width, height = source
    smallest, largest = (width - 0.5) * (height - 0.5), (width + GRID - 0.5) * (height + GRID - 0.5)
    if on_grid(source) == source and smallest <= area <= largest:
        return source
    factor = math.sqrt(area / (width * height))
    return max(GRID, round(width * factor)), max(GRID, round(height * factor))


def on_grid(size: Size) -> Size:
    """Width and height cut down to multiples of GRID pixels: what every model can draw."""
    return size[0] // GRID * GRID, size[1] // GRID * GRID

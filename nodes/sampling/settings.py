"""Sampling settings, and the size of an edited image.

Sizes are chosen so that a story of many edits is scaled at its first step at most. Each scaling blurs and
shifts a little, and the VAE crops to its grid; both would add up over many edits.
"""

from __future__ import annotations

import math

from pydantic import Field

from ...backend.core.types import Value

FLUX2 = "flux2"
GRID = 16
TEMPLATE_GUIDANCE = 0.0
MEGAPIXEL = 1024 * 1024
MAX_REFERENCES = 8
Size = tuple[int, int]

KONTEXT_SIZES: tuple[Size, ...] = (
    (672, 1568), (688, 1504), (720, 1456), (752, 1392), (800, 1328), (832, 1248), (880, 1184), (944, 1104),
    (1024, 1024),
    (1104, 944), (1184, 880), (1248, 832), (1328, 800), (1392, 752), (1456, 720), (1504, 688), (1568, 672),
)  # fmt: skip
"""Sizes of about one megapixel that FLUX.1 Kontext was trained at (the host's FluxKontextImageScale)."""
AREA_TOLERANCE = 0.1


class SamplingSettings(Value):
    """Sampling settings of the Step Generator."""

    steps: int = Field(
        default=4,
        ge=1,
        le=1000,
        description="Sampling steps: 4 for distilled models, about 20 for base models.",
    )
    cfg: float = Field(
        default=1.0, ge=0.0, le=100.0, description="Classifier-free guidance: 1 for distilled models."
    )
    sampler: str = "euler"
    scheduler: str = FLUX2
    width: int = Field(default=1024, ge=GRID, le=16384, description="Width in pixels.")
    height: int = Field(
        default=1024,
        ge=GRID,
        le=16384,
        description="Height in pixels. An edit keeps the shape of its source and has width x height pixels.",
    )
    denoise: float = Field(
        default=0.75, gt=0.0, le=1.0, description="Image to image only: how much of the source is replaced."
    )
    negative: str = Field(default="", description="Negative prompt; ignored at cfg 1.")
    guidance: float = Field(
        default=TEMPLATE_GUIDANCE,
        ge=0.0,
        le=100.0,
        description="Second guidance of FLUX dev models and OmniGen2; 0 takes the model's default.",
    )

    @property
    def size(self) -> Size:
        """Width and height."""
        return self.width, self.height

    @property
    def area(self) -> int:
        """Number of pixels of an image."""
        return self.width * self.height


def edit_size(source: Size, area: int, grid: int = GRID) -> Size:
    """Return the size of a source before an edit: its shape with `area` pixels, as in the templates.

    A source that may be the result of such an edit keeps its size, since scaling it again at every step would
    blur and shift it. (A scaled side is rounded to a pixel, then cropped by less than `grid`.)
    """
    width, height = source
    smallest, largest = (width - 0.5) * (height - 0.5), (width + grid - 0.5) * (height + grid - 0.5)
    if on_grid(source, grid) == source and smallest <= area <= largest:
        return source
    factor = math.sqrt(area / (width * height))
    if min(width, height) * factor < grid:
        # Otherwise a narrow strip would lose some of its length at every step.
        length = round(area / grid)
        return (grid, length) if width < height else (length, grid)
    return round(width * factor), round(height * factor)


def stepped_size(source: Size, area: int, grid: int = GRID) -> Size:
    """Return a size in multiples of `grid` with about `area` pixels, rounded like ImageScaleToTotalPixels.

    A source that may be the result of such an edit keeps its size.
    """
    width, height = source
    smallest, largest = (width - grid / 2) * (height - grid / 2), (width + grid / 2) * (height + grid / 2)
    if on_grid(source, grid) == source and smallest <= area <= largest:
        return source
    factor = math.sqrt(area / (width * height))
    stepped = max(grid, round(width * factor / grid) * grid), max(grid, round(height * factor / grid) * grid)
    return stepped


def kontext_size(source: Size, area: int) -> Size:
    """Return the one of KONTEXT_SIZES with the nearest shape, as in FluxKontextImageScale.

    For an area far from one megapixel, the sizes are scaled to it. A source with one of the sizes keeps it.
    """
    sizes = KONTEXT_SIZES
    if abs(area / MEGAPIXEL - 1) > AREA_TOLERANCE:
        factor = math.sqrt(area / MEGAPIXEL)
        sizes = tuple(
            (_rounded(width * factor), _rounded(height * factor)) for width, height in KONTEXT_SIZES
        )
    if source in sizes:
        return source
    shape = source[0] / source[1]
    return min(sizes, key=lambda size: (abs(shape - size[0] / size[1]), size))


def on_grid(size: Size, grid: int = GRID) -> Size:
    """Return width and height rounded down to multiples of `grid` pixels, which the model needs."""
    return size[0] // grid * grid, size[1] // grid * grid


def _rounded(side: float) -> int:
    return max(GRID, round(side / GRID) * GRID)

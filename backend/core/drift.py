"""Drift: how far colors and structure have changed over a chain of edits where nothing was meant to change.

The intended change of a step is not known, but an edit leaves most of an image alone. Both figures are
therefore computed over the half of the image that changed least, after allowing for one shift of all its
colors. The other half contains the intended change. A tint over the whole image shows in both halves.

- Color: CIE76 difference (CIELAB 1976, D65, sRGB of IEC 61966-2-1) of the mean colors of that half, from 0 to
  about 150. Differences from 2.3 are visible side by side (Mahy, Van Eycken, Oosterlinck 1994). Because it
  compares means, noise cancels out and a tint does not.
- Structure: (1 - cs)/2, where cs is the contrast-structure term of SSIM (Wang et al. 2004) over blocks of 8x8
  luma values at 256x256. 0 means identical, 0.5 unrelated, 1 inverted. A zoom, a shift by some pixels or lost
  detail raise it. A change of colors or of brightness does not.

An edit that repaints more than half of the image counts as drift, so read the figures together with the
prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from .pictures import Picture
from .types import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = 256
BLOCK = 8
CELLS = SIDE // BLOCK
KEPT_SHARE = 0.5
ROUNDS = 20
VISIBLE = 2.3
CONTRAST_FLOOR = (0.03 * 255) ** 2
LUMA = (0.2126, 0.7152, 0.0722)
SRGB_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


class Drift(Value):
    """Difference between two images in the half where they are most alike.

    See the module for units and ranges.
    """

    color: float = Field(ge=0.0)
    structure: float = Field(ge=0.0, le=1.0)

    @property
    def sentence(self) -> str:
        """Both figures as a short text."""
        visible = " (visible)" if self.color >= VISIBLE else ""
        return f"colors {self.color:.1f}{visible}, shapes {100 * self.structure:.0f}%"


def drift(before: Picture, after: Picture) -> Drift:
    """Return the drift from one image to another. Both are compared at the same size and shape."""
    import numpy as np

    if before == after:
        return Drift(color=0.0, structure=0.0)
    first, second = block_pixels(before), block_pixels(after)
    kept = unchanged(first, second)
    colors = [_lab(blocks.mean(axis=1)[kept].mean(axis=0)) for blocks in (first, second)]
    structure = (1.0 - _contrast_structure(first[kept] @ np.array(LUMA), second[kept] @ np.array(LUMA))) / 2.0
    return Drift(
        color=float(np.linalg.norm(colors[0] - colors[1])),
        structure=float(np.clip(structure.mean(), 0.0, 1.0)),
    )


def block_pixels(picture: Picture) -> NDArray:
    """Return the pixels of an image in blocks, after scaling it to SIDE x SIDE pixels.

    Returns:
        Float RGB values 0..255, shape `(CELLS * CELLS, BLOCK * BLOCK, 3)`.
    """
    import numpy as np
    from PIL import Image

    small = picture.image.resize((SIDE, SIDE), Image.Resampling.BOX)
    pixels = np.asarray(small, dtype=np.float64).reshape(CELLS, BLOCK, CELLS, BLOCK, 3)
    return pixels.swapaxes(1, 2).reshape(CELLS * CELLS, BLOCK * BLOCK, 3)


def unchanged(first: NDArray, second: NDArray) -> NDArray:
    """Return the indices of the half of the blocks that differ least.

    Differences are measured after allowing for a gain and offset per color channel.
    Least trimmed squares by concentration steps (Rousseeuw, Van Driessen 1999), started where the colors
    differ least.

    Args:
        first: Blocks of the first image, shape `(blocks, pixels, 3)`.
        second: Blocks of the second image, same shape.

    Returns:
        Sorted block indices, shape `(round(KEPT_SHARE * blocks),)`.
    """
    import numpy as np

    before, after = first.mean(axis=1), second.mean(axis=1)
    count = max(2, round(KEPT_SHARE * len(before)))
    kept = np.arange(0)
    gain, offset = np.ones(3), np.zeros(3)
    for _ in range(ROUNDS):
        distance = ((gain * after + offset - before) ** 2).sum(axis=1)
        nearest = np.sort(np.argsort(distance, kind="stable")[:count])
        if np.array_equal(nearest, kept):
            break
        kept = nearest
        gain, offset = color_shift(before[kept], after[kept])
    return kept


def color_shift(wanted: NDArray, found: NDArray) -> tuple[NDArray, NDArray]:
    """Return gain and offset per channel that match mean and deviation of `found` to `wanted`.

    The method is Reinhard et al. 2001 and not a regression: noise in `found` would pull a regression's gain
    below one, and a chain of corrections would lose contrast.

    Args:
        wanted: Target colors, shape `(N, 3)`.
        found: Colors to correct, shape `(M, 3)`.

    Returns:
        Gain and offset, shape `(3,)` each.
    """
    import numpy as np

    spread = found.std(axis=0)
    gain = np.where(spread > 1.0, wanted.std(axis=0) / np.maximum(spread, 1.0), 1.0)
    return gain, wanted.mean(axis=0) - gain * found.mean(axis=0)


def _contrast_structure(first: NDArray, second: NDArray) -> NDArray:
    """Return the contrast-structure term of SSIM per block, shape `(blocks,)`."""
    covariance = (first * second).mean(axis=1) - first.mean(axis=1) * second.mean(axis=1)
    return (2 * covariance + CONTRAST_FLOOR) / (first.var(axis=1) + second.var(axis=1) + CONTRAST_FLOOR)


def _lab(color: NDArray) -> NDArray:
    """Convert an sRGB color (0..255, shape `(3,)`) to CIELAB."""
    import numpy as np

    encoded = color / 255.0
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    ratio = (np.array(SRGB_TO_XYZ) @ linear) / np.array(WHITE)
    root = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])

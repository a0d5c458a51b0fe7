"""How far a chain of edits has slid away: a figure for colours and one for structure, where nothing was meant
to change.

Decision: what a step was meant to change is not known, but an edit leaves most of a picture alone. So both
figures are taken over the half of the picture that changed least, up to one shift of all its colours: the
wanted change lies in the other half, a tint that creeps over everything shows in both.

- Colour: CIE76 difference (CIELAB 1976, D65, sRGB of IEC 61966-2-1) of the mean colours of that half, 0 to
  about 150; from 2.3 on it is visible side by side (Mahy, Van Eycken, Oosterlinck 1994). A mean, so noise
  cancels and a tint does not.
- Structure: (1 - cs)/2, cs the contrast-structure term of SSIM (Wang et al. 2004) over blocks of 8x8 luma
  values at 256x256, 0 (the same) to 1 (inverted), 0.5 for unrelated pictures. A zoom, a shift by some pixels
  or lost detail raise it; a change of colours or of brightness does not.

An edit that repaints more than half of the picture is counted as drift: the figure is to be read with the
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
    """Difference of two pictures where they are most alike; see above for units and ranges."""

    color: float = Field(ge=0.0)
    structure: float = Field(ge=0.0, le=1.0)

    @property
    def sentence(self) -> str:
        """Both figures in a few words."""
        visible = " (visible)" if self.color >= VISIBLE else ""
        return f"colour {self.color:.1f}{visible}, structure {100 * self.structure:.0f}%"


def drift(before: Picture, after: Picture) -> Drift:
    """The drift from one picture to another; both are compared at the same size and shape."""
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
    """Colours 0..255 of a picture as `[CELLS * CELLS, BLOCK * BLOCK, 3]`, brought to SIDE x SIDE pixels
    first."""
    import numpy as np
    from PIL import Image

    small = picture.image.resize((SIDE, SIDE), Image.Resampling.BOX)
    pixels = np.asarray(small, dtype=np.float64).reshape(CELLS, BLOCK, CELLS, BLOCK, 3)
    return pixels.swapaxes(1, 2).reshape(CELLS * CELLS, BLOCK * BLOCK, 3)


def unchanged(first: NDArray, second: NDArray) -> NDArray:
    """Numbers of the half of all blocks that differ least, up to one gain and offset of each colour channel.

    Least trimmed squares by concentration steps (Rousseeuw, Van Driessen 1999), begun where the colours
    differ least.
    """
    import numpy as np

    before, after = first.mean(axis=1), second.mean(axis=1)
    wanted = max(2, round(KEPT_SHARE * len(before)))
    kept = np.arange(0)
    gain, offset = np.ones(3), np.zeros(3)
    for _ in range(ROUNDS):
        distance = ((gain * after + offset - before) ** 2).sum(axis=1)
        nearest = np.sort(np.argsort(distance, kind="stable")[:wanted])
        if np.array_equal(nearest, kept):
            break
        kept = nearest
        gain, offset = color_shift(before[kept], after[kept])
    return kept


def color_shift(wanted: NDArray, found: NDArray) -> tuple[NDArray, NDArray]:
    """Gain and offset a channel that give `found` `[N, 3]` the mean and deviation of `wanted` (Reinhard et
    al. 2001).

    Not a regression: noise in `found` would pull its gain below one, and a chain of corrections would lose
    contrast.
    """
    import numpy as np

    spread = found.std(axis=0)
    gain = np.where(spread > 1.0, wanted.std(axis=0) / np.maximum(spread, 1.0), 1.0)
    return gain, wanted.mean(axis=0) - gain * found.mean(axis=0)


def _contrast_structure(first: NDArray, second: NDArray) -> NDArray:
    covariance = (first * second).mean(axis=1) - first.mean(axis=1) * second.mean(axis=1)
    return (2 * covariance + CONTRAST_FLOOR) / (first.var(axis=1) + second.var(axis=1) + CONTRAST_FLOOR)


def _lab(color: NDArray) -> NDArray:
    import numpy as np

    encoded = color / 255.0
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    ratio = (np.array(SRGB_TO_XYZ) @ linear) / np.array(WHITE)
    root = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])

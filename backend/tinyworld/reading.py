"""Reads a scene back from pixels: the ground truth of every claim about the tiny world.

Decision: each cell is compared with every content that the atlas knows on every backdrop; the backdrop is the one that
explains the whole page best. A cell that no content explains within TOLERANCE, or that two explain about equally well,
is unreadable: it counts as wrong, and the distance that remains is what the picture's quality is lowered by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..pictures import Picture
from .drawing import CELL, PAGE, atlas, cells_of
from .scene import BACKDROPS, EMPTY, Scene

if TYPE_CHECKING:
    import numpy as np

UNREADABLE = -1
# Root mean square difference, in 8-bit steps, over the pixels of a cell. Two different things in one cell differ by 30
# and more, the same thing in two colours by 25 and more (tests/test_tinyworld_reading.py measures both).
TOLERANCE = 20.0
MARGIN = 3.0


@dataclass(frozen=True)
class Reading:
    """What a page shows. `cells` may hold UNREADABLE; `residuals` are RMS differences (0..255) to the best content."""

    backdrop: int
    cells: tuple[int, ...]
    residuals: tuple[float, ...]

    @property
    def scene(self) -> Scene | None:
        """The scene, None if any cell is unreadable."""
        return None if UNREADABLE in self.cells else Scene(self.backdrop, self.cells)


def _distances(pixels: np.ndarray) -> np.ndarray:
    """Squared differences, mean over pixels: [4 backdrops, 9 cells, 41 contents]."""
    import numpy as np

    tiles = cells_of(pixels).reshape(9, -1).astype(np.float32)
    known, squares = _flat_atlas()
    own = (tiles**2).sum(1)
    cross = np.einsum("bcid,cd->bci", known, tiles, optimize=True)
    return np.maximum(own[None, :, None] - 2 * cross + squares, 0) / tiles.shape[1]


_FLAT: tuple[np.ndarray, np.ndarray] | None = None


def _flat_atlas() -> tuple[np.ndarray, np.ndarray]:
    global _FLAT
    if _FLAT is None:
        import numpy as np

        flat = atlas().reshape(len(BACKDROPS), 9, -1, CELL * CELL * 3).astype(np.float32)
        _FLAT = flat, (flat**2).sum(-1)
    return _FLAT


def read_page(picture: Picture) -> Reading:
    """Read a page of any size (scaled to PAGE x PAGE first)."""
    import numpy as np

    image = picture.image
    if image.size != (PAGE, PAGE):
        image = image.resize((PAGE, PAGE))
    distances = _distances(np.asarray(image))
    backdrop = int(distances.min(2).sum(1).argmin())
    cells, residuals = [], []
    for row in distances[backdrop]:
        order = row.argsort()
        best, second = float(row[order[0]]) ** 0.5, float(row[order[1]]) ** 0.5
        readable = best <= TOLERANCE and second - best >= MARGIN
        cells.append(int(order[0]) if readable else UNREADABLE)
        residuals.append(best)
    return Reading(backdrop, tuple(cells), tuple(residuals))


def is_blank(picture: Picture) -> bool:
    """Whether this is the pure white image that stands for "nothing before"."""
    return picture.image.getextrema() == ((255, 255), (255, 255), (255, 255))


__all__ = ["EMPTY", "MARGIN", "TOLERANCE", "UNREADABLE", "Reading", "is_blank", "read_page"]

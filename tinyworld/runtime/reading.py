"""Reads a scene back from pixels: the ground truth of every claim about the tiny world.

Decision: each cell is compared with every content that the atlas knows on every backdrop; the backdrop is the
one that explains the whole page best. A cell that no content explains within TOLERANCE, or that two explain
about equally well, is unreadable: it counts as wrong, and the distance that remains is what the picture's
quality is lowered by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from ...backend.pictures import Picture
from .drawing import PAGE, atlas, cells_of
from .scene import BACKDROPS, IDENTITIES, Scene

if TYPE_CHECKING:
    import numpy as np

UNREADABLE = -1
# Root mean square difference, in 8-bit steps, over the pixels of a cell. Two different things in one cell
# differ by 30 and more, the same thing in two colours by 25 and more (tests/tinyworld/runtime/test_scene.py
# measures both).
TOLERANCE = 20.0
MARGIN = 3.0
REMEMBERED = 512
"""Pages whose readings are kept: a story's page is read as what was drawn, as what the next step begins with
and for the story as a whole. Beside another process reading them all took half of the time of telling it."""
_KNOWN_LOCK = Lock()
_READINGS: dict[str, ImageReading] = {}


@dataclass(frozen=True)
class ImageReading:
    """What a page shows. `cells` may hold UNREADABLE; `residuals` are RMS differences (0..255) to the best
    content."""

    backdrop: int
    cells: tuple[int, ...]
    residuals: tuple[float, ...]

    @property
    def scene(self) -> Scene | None:
        """The scene, None if any cell is unreadable."""
        return None if UNREADABLE in self.cells else Scene(self.backdrop, self.cells)


def _known() -> tuple[np.ndarray, np.ndarray]:
    """The atlas as [9 cells, numbers of a tile, 4 backdrops * 41 contents], and the sum of squares of each
    tile."""
    with _KNOWN_LOCK:
        return _laid_out()


@lru_cache(maxsize=1)
def _laid_out() -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    flat = atlas().reshape(len(BACKDROPS), 9, IDENTITIES, -1).astype(np.float32)
    by_cell = flat.transpose(1, 3, 0, 2).reshape(9, flat.shape[-1], -1)
    return np.ascontiguousarray(by_cell), (by_cell**2).sum(1)


def _distances(pages: np.ndarray) -> np.ndarray:
    """Squared differences, mean over a tile: pages [n, PAGE, PAGE, 3] to [n, 4 backdrops, 9 cells, 41
    contents]."""
    import numpy as np

    tiles = np.stack([cells_of(page) for page in pages]).reshape(len(pages), 9, -1).astype(np.float32)
    known, squares = _known()
    cross = np.matmul(tiles.transpose(1, 0, 2), known).transpose(1, 0, 2)
    mean = np.maximum((tiles**2).sum(-1)[..., None] - 2 * cross + squares, 0) / tiles.shape[-1]
    return mean.reshape(len(pages), 9, len(BACKDROPS), IDENTITIES).transpose(0, 2, 1, 3)


def read_images(pictures: Sequence[Picture]) -> list[ImageReading]:
    """Read pages of any size (scaled to PAGE x PAGE first), all at once."""
    import numpy as np

    images = [picture.image for picture in pictures]
    scaled = [image if image.size == (PAGE, PAGE) else image.resize((PAGE, PAGE)) for image in images]
    return [_read(distances) for distances in _distances(np.stack([np.asarray(image) for image in scaled]))]


def read_image(picture: Picture) -> ImageReading:
    """Read one page; the same page again is remembered."""
    reading = _READINGS.get(picture.digest)
    if reading is None:
        reading = _READINGS[picture.digest] = read_images([picture])[0]
        for oldest in list(_READINGS)[:-REMEMBERED]:
            _READINGS.pop(oldest, None)
    return reading


def _read(distances: np.ndarray) -> ImageReading:
    backdrop = int(distances.min(2).sum(1).argmin())
    cells, residuals = [], []
    for row in distances[backdrop]:
        order = row.argsort()
        best, second = float(row[order[0]]) ** 0.5, float(row[order[1]]) ** 0.5
        readable = best <= TOLERANCE and second - best >= MARGIN
        cells.append(int(order[0]) if readable else UNREADABLE)
        residuals.append(best)
    return ImageReading(backdrop, tuple(cells), tuple(residuals))


def is_blank(picture: Picture) -> bool:
    """Whether this is the pure white image that stands for "nothing before"."""
    return picture.image.getextrema() == ((255, 255), (255, 255), (255, 255))

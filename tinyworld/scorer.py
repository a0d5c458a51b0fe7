"""The tiny world's exact scorer: reads scenes from pixels and compares them with the instruction.

Each cell is compared with every content of the atlas on every backdrop; the backdrop is the one that explains
the whole image best. A cell is unreadable if no content explains it within TOLERANCE, or if two explain it
about equally well. It then counts as wrong. This is the ground truth of all claims about the tiny world.

Semantics loses 5 points for each wrong cell and for a wrong backdrop, so one fault gives 5 and two give 0,
like a strict judge. Quality falls linearly from 10 with the RMS difference of the worst cell. Success means
no fault: semantics 10 and every cell readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from ..backend.core.errors import NotScorable
from ..backend.core.pictures import Picture
from ..backend.core.types import Score
from ..backend.models.scorers import Scorer
from .drawing import PAGE, atlas, cells_of
from .scene import BACKDROPS, IDENTITIES, Scene, StartScene
from .wording import read_prompt

if TYPE_CHECKING:
    import numpy as np


UNREADABLE = -1
# RMS difference over the pixels of a cell, in 8-bit steps. Two different things in a cell differ by 30 or
# more, the same thing in two colors by 25 or more (tests/tinyworld/test_scene.py measures both).
TOLERANCE = 20.0
MARGIN = 3.0
REMEMBERED = 512
"""Maximum number of cached readings.

A story's image is read as a result, as the source of the next step and for the story as a whole. Next to
another process, reading it every time took half of the story's time.
"""
_KNOWN_LOCK = Lock()
_READINGS: dict[str, ImageReading] = {}


@dataclass(frozen=True)
class ImageReading:
    """Content of an image.

    Attributes:
        backdrop: Index of the backdrop.
        cells: Content of the nine cells; UNREADABLE if unknown.
        residuals: RMS difference (0 to 255) of each cell to the best content.
    """

    backdrop: int
    cells: tuple[int, ...]
    residuals: tuple[float, ...]

    @property
    def scene(self) -> Scene | None:
        """The scene; `None` if any cell is unreadable."""
        return None if UNREADABLE in self.cells else Scene(self.backdrop, self.cells)


def _known() -> tuple[np.ndarray, np.ndarray]:
    """Return the atlas as `(9, values, 4 * 41)` and the sums of squares of its tiles `(9, 4 * 41)`."""
    with _KNOWN_LOCK:
        return _laid_out()


@lru_cache(maxsize=1)
def _laid_out() -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    flat = atlas().reshape(len(BACKDROPS), 9, IDENTITIES, -1).astype(np.float32)
    by_cell = flat.transpose(1, 3, 0, 2).reshape(9, flat.shape[-1], -1)
    return np.ascontiguousarray(by_cell), (by_cell**2).sum(1)


def _distances(pages: np.ndarray) -> np.ndarray:
    """Return mean squared differences per tile: images `(n, PAGE, PAGE, 3)` to `(n, 4, 9, 41)`.

    The result's axes are image, backdrop, cell and content.
    """
    import numpy as np

    tiles = np.stack([cells_of(page) for page in pages]).reshape(len(pages), 9, -1).astype(np.float32)
    known, squares = _known()
    cross = np.matmul(tiles.transpose(1, 0, 2), known).transpose(1, 0, 2)
    mean = np.maximum((tiles**2).sum(-1)[..., None] - 2 * cross + squares, 0) / tiles.shape[-1]
    return mean.reshape(len(pages), 9, len(BACKDROPS), IDENTITIES).transpose(0, 2, 1, 3)


def read_images(pictures: Sequence[Picture]) -> list[ImageReading]:
    """Read images of any size (scaled to PAGE x PAGE first) in one batch."""
    import numpy as np

    images = [picture.image for picture in pictures]
    scaled = [image if image.size == (PAGE, PAGE) else image.resize((PAGE, PAGE)) for image in images]
    return [_read(distances) for distances in _distances(np.stack([np.asarray(image) for image in scaled]))]


def read_image(picture: Picture) -> ImageReading:
    """Read one image; readings are cached."""
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
    """Whether this is the pure white image that means no image before."""
    return picture.image.getextrema() == ((255, 255), (255, 255), (255, 255))


POINTS_PER_FAULT = 5.0
CLEAN_RMS, SPOILT_RMS = 6.0, 46.0


def expected_scene(before: Picture | None, instruction: str) -> Scene:
    """Return the scene that the image should show after the instruction.

    Raises:
        NotScorable: If the instruction or the image before cannot be read.
    """
    found = read_prompt(instruction)
    if found is None:
        raise NotScorable(
            f"{instruction!r} is not a prompt of the tiny world.",
            "The prompts are described in docs/explanation/tiny-world.md.",
        )
    edit, _ = found
    if isinstance(edit, StartScene):
        return edit.scene
    if before is None or is_blank(before):
        raise NotScorable(
            f"The prompt {instruction!r} edits an image, but it has no source image. Start with a new scene."
        )
    scene = read_image(before).scene
    if scene is None:
        raise NotScorable(
            "The image before cannot be read, so the expected result is unknown. Start with a readable image."
        )
    return edit.apply(scene)


def faults(expected: Scene, seen: ImageReading) -> list[int | None]:
    """Return the cells (0 to 8) with wrong content, and `None` for a wrong backdrop."""
    wrong: list[int | None] = [cell for cell in range(9) if seen.cells[cell] != expected.cells[cell]]
    return wrong if seen.backdrop == expected.backdrop else [*wrong, None]


def score_of(expected: Scene, seen: ImageReading) -> Score:
    """Return the score of an image's content against the expected scene."""
    spoilt = (max(seen.residuals) - CLEAN_RMS) / (SPOILT_RMS - CLEAN_RMS)
    return Score(
        semantics=max(0.0, 10.0 - POINTS_PER_FAULT * len(faults(expected, seen))),
        quality=10.0 * (1.0 - min(1.0, max(0.0, spoilt))),
    )


class TinyWorldScorer(Scorer):
    """Exact scores of tiny-world images."""

    @property
    def identity(self) -> str:
        """Version of the rules."""
        return "tinyworld-exact-1"

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Return semantics and quality, each 0 to 10."""
        return score_of(expected_scene(before, instruction), read_image(after))

    def success(self, before: Picture | None, after: Picture, instruction: str) -> bool:
        """Whether the image shows exactly the result of the instruction, with nothing else changed."""
        return not faults(expected_scene(before, instruction), read_image(after))


def open(argument: str) -> TinyWorldScorer:
    """Open the scorer; `argument` is ignored."""
    return TinyWorldScorer()

"""A generator without a model: stripes of colour hashed from prompt, seed and source, in milliseconds.

Decision: tests, dry runs of a plan and demonstrations of the journal need a generator whose images depend on
exactly what a real one's depend on (every argument changes the pixels, nothing else does) and on no weights.
It ships, so that all of them use the same one. As an edit would, it keeps most of the source: one row of the
grid is repainted.
"""

from __future__ import annotations

import hashlib
from typing import Any

from PIL import Image

from ..errors import SettingsError
from ..pictures import Picture
from ..types import MAX_STEP_IMAGES, StepSettings
from ..values import shown_beside

GRID = 8


class FakeGenerator:
    """Draws a grid of 8x8 coloured cells, `size` pixels square."""

    def __init__(self, size: int = 64) -> None:
        if not GRID <= size <= 4096:
            raise SettingsError(f"Size {size} of a fake image is not between {GRID} and 4096.")
        self.size = size
        self._step = StepSettings()

    @property
    def identity(self) -> str:
        # In the journals of runs that may go on, hence by its earlier name.
        return f"painted/1 {self.size}x{self.size}"

    @property
    def step_settings(self) -> frozenset[str]:
        """Each of them makes another picture."""
        return frozenset({"denoise", "negative", "mask", "reference"})

    @property
    def max_reference_images(self) -> int:
        """As many as there are."""
        return MAX_STEP_IMAGES - 1

    def with_step_settings(self, settings: StepSettings) -> FakeGenerator:
        """The same, whose pictures these settings shape too."""
        other = FakeGenerator(self.size)
        other._step = settings
        return other

    @property
    def draw_options(self) -> frozenset[str]:
        """Its size."""
        return frozenset({"size"})

    def with_draw_options(
        self,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        guidance: float | None = None,
    ) -> FakeGenerator:
        """The same in another size, which is square; raises SettingsError."""
        if size is None:
            return self
        other = open("", size=f"{size[0]}x{size[1]}")
        other._step = self._step
        return other

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """A picture determined by the arguments alone, without failure."""
        own = f"\0{settings}" if (settings := self._settings()) else ""
        drawn_from = f"{prompt}\0{seed}\0{source.digest if source else ''}{own}".encode()
        paint = hashlib.blake2b(drawn_from, digest_size=1).digest() + hashlib.shake_256(drawn_from).digest(
            GRID * GRID * 3
        )
        grid = Image.frombytes("RGB", (GRID, GRID), paint[1:])
        if source is not None:
            row = paint[0] % GRID
            repainted = grid.crop((0, row, GRID, row + 1))
            grid = source.image.resize((GRID, GRID), Image.Resampling.NEAREST)
            grid.paste(repainted, (0, row))
        return Picture(grid.resize((self.size, self.size), Image.Resampling.NEAREST))

    def _settings(self) -> dict[str, Any]:
        """What shapes the picture of the step's settings; images beside the source count in their order,
        whatever they are called."""
        given = {name: one for name, one in self._step.of_draw.items() if name not in ("beside", "reference")}
        shown = [one.digest for one in shown_beside(self._step)]
        if not shown:
            return given
        return given | ({"reference": shown[0]} if len(shown) == 1 else {"beside": shown})


def open(argument: str, size: str | int | None = None) -> FakeGenerator:
    """`fake` or `fake:SIZE`; the option `size` (pixels, or WIDTHxHEIGHT with
    both equal) wins. Raises SettingsError."""
    text = str(size if size is not None else argument or 64)
    width, _, height = text.partition("x")
    if not width.isdigit() or height not in ("", width):
        raise SettingsError(
            f"A fake image is square, and {text!r} is not its size in pixels.", "Such as fake:64."
        )
    return FakeGenerator(int(width))

"""A generator without a model: color stripes hashed from prompt, seed and source image, in milliseconds.

Tests, dry runs of a plan and demonstrations of the journal need images that depend on exactly the same inputs
as those of a real generator (every argument changes the pixels, nothing else does) and no weights. Like an
edit, it keeps most of the source image: one row of its grid is repainted.
"""

from __future__ import annotations

import hashlib
from typing import Any

from PIL import Image

from ...core.errors import SettingsError
from ...core.pictures import Picture
from ...core.seams.generator import Generator
from ...core.types import MAX_STEP_IMAGES, StepSettings, shown_beside

GRID = 8


class FakeGenerator(Generator):
    """Generates a grid of 8x8 colored cells, `size` pixels square."""

    def __init__(self, size: int = 64) -> None:
        if not GRID <= size <= 4096:
            raise SettingsError(f"The size of a fake image must be {GRID} to 4096 pixels, not {size}.")
        self.size = size
        self._step = StepSettings()

    @property
    def identity(self) -> str:
        """Identity of the generator, with its size."""
        # Journals of runs that can be resumed contain this identity, so it keeps the generator's former name.
        return f"painted/1 {self.size}x{self.size}"

    @property
    def step_settings(self) -> frozenset[str]:
        """All of them affect the image."""
        return frozenset({"denoise", "negative", "mask", "reference", "size", "lora"})

    @property
    def max_reference_images(self) -> int:
        """The maximum that a step can have."""
        return MAX_STEP_IMAGES - 1

    def with_step_settings(self, settings: StepSettings) -> FakeGenerator:
        """Return the same generator with settings of a step, which affect its images.

        Raises:
            SettingsError: The size is not square or out of range.
        """
        other = open("", size=settings.size or self.size)
        other._step = settings
        return other

    def lora_digest(self, name: str) -> str:
        """Return a digest of the name: every name is a LoRA."""
        return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()

    @property
    def draw_options(self) -> frozenset[str]:
        """Only the size."""
        return frozenset({"size"})

    def with_draw_options(
        self,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        guidance: float | None = None,
    ) -> FakeGenerator:
        """Return the same generator with another size, which must be square.

        Raises:
            SettingsError: The size is not square or out of range.
        """
        if size is None:
            return self
        other = open("", size=f"{size[0]}x{size[1]}")
        other._step = self._step
        return other

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Return an image that depends only on the arguments and the step's settings."""
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
        """Return the step's settings that affect the image.

        Images count in their order, regardless of their names.
        """
        given = {name: one for name, one in self._step.of_draw.items() if name not in ("beside", "reference")}
        shown = [one.digest for one in shown_beside(self._step)]
        if not shown:
            return given
        return given | ({"reference": shown[0]} if len(shown) == 1 else {"beside": shown})


def open(argument: str, size: str | int | None = None) -> FakeGenerator:
    """Open `fake` or `fake:SIZE`.

    Args:
        argument: Size in pixels, or empty.
        size: Size in pixels, or WIDTHxHEIGHT with both equal. Overrides `argument`.

    Raises:
        SettingsError: The size is invalid.
    """
    text = str(size if size is not None else argument or 64)
    width, _, height = text.partition("x")
    if not width.isdigit() or height not in ("", width):
        raise SettingsError(
            f"Invalid size {text!r}: fake images are square.", "Give the side in pixels, for example fake:64."
        )
    return FakeGenerator(int(width))

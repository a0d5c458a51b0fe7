"""A shifted generator, with a fault that the shipped critic never saw: now and then the top of a thing is cut
off.

Decision: the shift is put on top of the learned generator, from the seed alone, so the same prompt, source
and seed give the same page as everywhere. It keeps the world's one rule of mistakes: it falls on a cell that
the edit acts in, and a clause that names the cell keeps it away, so a critic that sees it can also mend it.
The exact scorer calls such a cell unreadable; the shipped critic sees a whole thing in most of them (of 109
such pages it refused 48), which is why it is the top 13 of 32 rows.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ....backend.pictures import Picture
from ...runtime.drawing import backdrop_page
from ...runtime.generator import TinyWorldGenerator
from ...runtime.reading import is_blank, read_images
from ...runtime.scene import EMPTY, StartScene
from ...runtime.sprites import CELL
from ...runtime.wording import read_prompt
from ..world.scenes import changed_cells

if TYPE_CHECKING:
    from PIL import Image

    from ...runtime.pipeline import TinyWorldPipeline

ROWS = 13
"""Rows of pixels at the top of a cell that are cut off."""
SHIFTED = 0.35
"""Chance that a page under a terse prompt has a cut thing, if the edit draws one."""


class ShiftedPipeline:
    """Draws as `pipeline` does, then cuts the top of a thing off; to be called like one."""

    def __init__(self, pipeline: TinyWorldPipeline, chance: float = SHIFTED) -> None:
        self.pipeline = pipeline
        self.chance = chance

    def __call__(
        self, prompts: list[str], sources: list[Image.Image | None], seeds: list[int]
    ) -> list[Image.Image]:
        """One page a prompt, as the pipeline's own."""
        pages = [Picture(page) for page in self.pipeline(prompts, sources, seeds)]
        return [
            self._shifted(page, prompt, source, seed)
            for page, prompt, source, seed in zip(pages, prompts, sources, seeds, strict=True)
        ]

    def _shifted(self, page: Picture, prompt: str, source: Image.Image | None, seed: int) -> Image.Image:
        rng = Random(f"torn/{seed}")
        found = read_prompt(prompt)
        if rng.random() >= self.chance or found is None:
            return page.image
        edit, clauses = found
        before = Picture(source) if source is not None else None
        known = None if before is None or is_blank(before) else read_images([before])[0].scene
        if known is None and not isinstance(edit, StartScene):
            return page.image
        wanted = edit.apply(known)  # pyright: ignore[reportArgumentType]
        named = {clause.cell for clause in clauses}
        seen = read_images([page])[0]
        cells = [
            cell
            for cell in changed_cells(None if isinstance(edit, StartScene) else known, wanted)
            if wanted.cells[cell] != EMPTY and seen.cells[cell] > EMPTY
        ]
        cell = rng.choice(cells) if cells else None
        return page.image if cell is None or cell in named else cut_top(page.image, seen.backdrop, cell)


def cut_top(page: Image.Image, backdrop: int, cell: int) -> Image.Image:
    """The page with the top of a cell as empty as its backdrop."""
    left, top = CELL * (cell % 3), CELL * (cell // 3)
    box = (left, top, left + CELL, top + ROWS)
    shifted = page.copy()
    shifted.paste(backdrop_page(backdrop).crop(box), box)
    return shifted


def shifted_generator(generator: TinyWorldGenerator, chance: float = SHIFTED) -> TinyWorldGenerator:
    """The generator with the shift."""
    pipeline: TinyWorldPipeline = ShiftedPipeline(generator.pipeline, chance)  # type: ignore[assignment]
    return TinyWorldGenerator(pipeline, f"{generator.identity} torn {chance}")

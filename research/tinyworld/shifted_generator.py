"""A shifted generator with a fault unknown to the shipped critic, and a simulated user's annotations of it.

Sometimes the top of an object is cut off. The shift is applied to the learned generator's output and depends
only on the seed, so the same prompt, source and seed always give the same image. It follows the world's rule
for mistakes: it affects a cell that the edit acts on, and a clause that names the cell prevents it, so a
critic that sees it can also fix it. The exact scorer calls such a cell unreadable. The shipped critic sees a
complete object in most of them (it rejected 48 of 109), which is why the top 13 of 32 rows are cut.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ...backend.core.errors import ScorerError
from ...backend.core.pictures import Picture
from ...backend.core.types import Attempt
from ...backend.output.feedback_log import Feedback
from ...tinyworld.drawing import CELL, backdrop_page
from ...tinyworld.generator import TinyWorldGenerator
from ...tinyworld.oracle import changed_cells, drawn_of, refine
from ...tinyworld.scene import EMPTY, StartScene
from ...tinyworld.scorer import TinyWorldScorer, is_blank, read_images
from ...tinyworld.wording import prompt_text, read_prompt

if TYPE_CHECKING:
    from PIL import Image

    from ...tinyworld.pipeline import TinyWorldPipeline

ROWS = 13
"""Pixel rows at the top of a cell that are cut off."""
SHIFTED = 0.35
"""Probability that an image from a terse prompt has a cut object, if the edit creates one."""


class ShiftedPipeline:
    """Wraps `pipeline` and cuts off the top of an object in some images."""

    def __init__(self, pipeline: TinyWorldPipeline, chance: float = SHIFTED) -> None:
        self.pipeline = pipeline
        self.chance = chance

    def __call__(
        self, prompts: list[str], sources: list[Image.Image | None], seeds: list[int]
    ) -> list[Image.Image]:
        """Generate one image per prompt."""
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
        expected = edit.apply(known)  # pyright: ignore[reportArgumentType]
        named = {clause.cell for clause in clauses}
        seen = read_images([page])[0]
        cells = [
            cell
            for cell in changed_cells(None if isinstance(edit, StartScene) else known, expected)
            if expected.cells[cell] != EMPTY and seen.cells[cell] > EMPTY
        ]
        cell = rng.choice(cells) if cells else None
        return page.image if cell is None or cell in named else cut_top(page.image, seen.backdrop, cell)


def cut_top(page: Image.Image, backdrop: int, cell: int) -> Image.Image:
    """Replace the top of a cell by its backdrop."""
    left, top = CELL * (cell % 3), CELL * (cell // 3)
    box = (left, top, left + CELL, top + ROWS)
    shifted = page.copy()
    shifted.paste(backdrop_page(backdrop).crop(box), box)
    return shifted


def shifted_generator(generator: TinyWorldGenerator, chance: float = SHIFTED) -> TinyWorldGenerator:
    """Return the generator with the shift."""
    pipeline: TinyWorldPipeline = ShiftedPipeline(generator.pipeline, chance)  # type: ignore[assignment]
    return TinyWorldGenerator(pipeline, f"{generator.identity} torn {chance}")


def feedback_on(step: int, number: int, prompt: str, attempt: Attempt) -> Feedback | None:
    """Return the exact annotation of an attempt, with a better prompt if it is wrong.

    Returns `None` if the image before is too damaged to judge it.
    """
    if attempt.image is None:
        return None
    try:
        right = TinyWorldScorer().success(attempt.source, attempt.image, prompt)
    except ScorerError:
        return None
    if right:
        return Feedback(step=step, attempt=number, accepted=True)
    drawn = drawn_of(attempt.source, attempt.image, prompt, attempt.prompt)
    better = prompt_text(drawn.edit, refine(drawn)) if drawn else None
    return Feedback(step=step, attempt=number, accepted=False, better_prompt=better)

"""Judged images of the tiny world without a generator: rendered ones, half of them with a mistake."""

from __future__ import annotations

from random import Random

from interleave_thinker.research.tinyworld.world.scenes import (
    random_clauses,
    random_edit,
    random_scene,
    random_start,
)
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.oracle import DrawnImage, changed_cells
from interleave_thinker.tinyworld.scene import IDENTITIES
from interleave_thinker.tinyworld.scorer import ImageReading


def rendered(rng: Random) -> DrawnImage:
    """Return a rendered image; in a wrong one, a cell that the edit acts on has another content."""
    before = None if rng.random() < 0.2 else random_scene(rng)
    edit = random_start(rng) if before is None else random_edit(rng, before)
    scene = after = edit.apply(before)  # pyright: ignore[reportArgumentType]
    clauses = random_clauses(rng, before, after) if rng.random() < 0.4 else []
    if rng.random() < 0.55:
        cell = rng.choice(sorted(changed_cells(before, after)) or list(range(9)))
        others = [content for content in range(IDENTITIES) if content != after.cells[cell]]
        scene = after.put(cell, rng.choice(others))
    seen = ImageReading(scene.backdrop, scene.cells, (0.0,) * 9)
    return DrawnImage(draw(before) if before else None, before, edit, tuple(clauses), draw(scene), seen)

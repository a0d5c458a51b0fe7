"""The tiny world's exact scorer: reads both images from pixels and compares them with the instruction.

Semantics loses 5 points for each wrong cell and for a wrong backdrop, so one fault gives 5 and two give 0,
like a strict judge. Quality falls linearly from 10 with the RMS difference of the worst cell. Success means
no fault: semantics 10 and every cell readable.
"""

from __future__ import annotations

from ...backend.core.errors import NotScorable
from ...backend.core.pictures import Picture
from ...backend.core.types import Score
from ...backend.models.scorers import Scorer
from .reading import ImageReading, is_blank, read_image
from .scene import Scene, StartScene
from .wording import read_prompt

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

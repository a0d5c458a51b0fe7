"""The tiny world's exact scorer: reads both pages from pixels and compares with what the instruction asks
for.

Decision: semantics loses 5 points for each wrong cell (and for a wrong backdrop), so one fault is 5 and two
are 0, as a strict judge would have it; quality falls from 10 linearly with the worst cell's remaining RMS
difference. Success is "nothing wrong at all", which is semantics 10 and every cell readable.
"""

from __future__ import annotations

from ...backend.errors import ScorerError
from ...backend.pictures import Picture
from ...backend.types import Score
from .reading import ImageReading, is_blank, read_image
from .scene import Scene, StartScene
from .wording import read_prompt

POINTS_PER_FAULT = 5.0
CLEAN_RMS, SPOILT_RMS = 6.0, 46.0


def expected_scene(before: Picture | None, instruction: str) -> Scene:
    """What the page should show after the instruction; raises ScorerError if that is not clear."""
    found = read_prompt(instruction)
    if found is None:
        raise ScorerError(
            f"{instruction!r} is not an instruction of the tiny world.", "See docs/explanation/tiny-world.md."
        )
    edit, _ = found
    if isinstance(edit, StartScene):
        return edit.scene
    if before is None or is_blank(before):
        raise ScorerError(f"{instruction!r} edits a page, but there is none before it.")
    scene = read_image(before).scene
    if scene is None:
        raise ScorerError("The page before cannot be read, so what should come after is unknown.")
    return edit.apply(scene)


def faults(expected: Scene, seen: ImageReading) -> list[int | None]:
    """The cells (0..8) whose content is wrong, and None for a wrong backdrop."""
    wrong: list[int | None] = [cell for cell in range(9) if seen.cells[cell] != expected.cells[cell]]
    return wrong if seen.backdrop == expected.backdrop else [*wrong, None]


def score_of(expected: Scene, seen: ImageReading) -> Score:
    """The score of what was seen of a page, against what it should show."""
    spoilt = (max(seen.residuals) - CLEAN_RMS) / (SPOILT_RMS - CLEAN_RMS)
    return Score(
        semantics=max(0.0, 10.0 - POINTS_PER_FAULT * len(faults(expected, seen))),
        quality=10.0 * (1.0 - min(1.0, max(0.0, spoilt))),
    )


class TinyWorldScorer:
    """Exact scores of tiny-world pages."""

    identity = "tinyworld-exact-1"

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        return score_of(expected_scene(before, instruction), read_image(after))

    def success(self, before: Picture | None, after: Picture, instruction: str) -> bool:
        """Whether the page shows exactly what was asked for and nothing else changed."""
        return not faults(expected_scene(before, instruction), read_image(after))


def open(argument: str) -> TinyWorldScorer:
    """The scorer takes no argument."""
    return TinyWorldScorer()

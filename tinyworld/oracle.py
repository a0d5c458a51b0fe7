"""The oracle: what a perfect critic of the tiny world answers, from the pixels and prompts of an image.

The reasoning lists every cell that contained, should contain or contains something as "was CELL THING want
CELL THING see CELL THING: yes|no". Each thing follows the name of its cell, so that one look determines it.
The earlier content comes before the expected one; otherwise the critic expected everything that it saw. The
verdict then only depends on the words yes and no. The refined prompts are good but not perfect: each names
one wrong cell, which leaves something for reinforcement learning.

`OracleCritic` answers only if the pixels agree with the given verdict, because a contradicting reasoning
would teach nonsense. A critic trained on its answers keeps the format of the shipped one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..backend.core.pictures import Picture
from ..backend.core.types import Verdict
from .scene import BACKDROPS, CELLS, EMPTY, Edit, Scene, StartScene, color_and_thing, name_of
from .scorer import UNREADABLE, ImageReading, faults, is_blank, read_image
from .wording import Clause, clauses_of, prompt_text, read_prompt

MAX_CLAUSES = 4


@dataclass(frozen=True)
class DrawnImage:
    """An image to judge.

    Attributes:
        before: Source image; `None` if there was none.
        scene_before: Scene of the source.
        edit: The requested edit.
        clauses: Clauses of the prompt.
        after: The image.
        seen: What it shows.
        seed: Its seed; `None` if it was rendered.
    """

    before: Picture | None
    scene_before: Scene | None
    edit: Edit | StartScene
    clauses: tuple[Clause, ...]
    after: Picture
    seen: ImageReading
    seed: int | None = None

    @property
    def expected(self) -> Scene:
        """Scene that the image should show."""
        return self.edit.apply(self.scene_before)  # pyright: ignore[reportArgumentType]

    @property
    def success(self) -> bool:
        """Whether the image shows the expected scene."""
        return not faults(self.expected, self.seen)


def changed_cells(before: Scene | None, after: Scene) -> list[int]:
    """Return the cells that an edit changes; for a first image, its things."""
    if before is None:
        return after.occupied
    return [cell for cell in range(9) if before.cells[cell] != after.cells[cell]]


def compare(drawn: DrawnImage) -> str:
    """Return the critic's reasoning: the backdrop, every cell that has content, and the conclusion."""
    before, expected, seen = drawn.scene_before, drawn.expected, drawn.seen
    was = BACKDROPS[before.backdrop] if before else "blank"
    want, see = BACKDROPS[expected.backdrop], BACKDROPS[seen.backdrop]
    parts = [f"was page {was} want page {want} see page {see} {'yes' if want == see else 'no'}"]
    for cell, place in enumerate(CELLS):
        held = before.cells[cell] if before else EMPTY
        wanted, shown = expected.cells[cell], seen.cells[cell]
        if (held, wanted, shown) != (EMPTY, EMPTY, EMPTY):
            things = (
                f"was {place} {name_of(held)} want {place} {name_of(wanted)} see {place} {seen_name(shown)}"
            )
            parts.append(things + _match(wanted, shown))
    return "; ".join(parts) + f"; so {'yes' if drawn.success else 'no'}"


def _match(wanted: int, shown: int) -> str:
    """Return whether a cell is correct. If both things exist, color and kind are compared separately.

    A small model can learn this.
    """
    if EMPTY in (wanted, shown) or shown == UNREADABLE:
        return " yes" if wanted == shown else " no"
    pairs = zip(color_and_thing(wanted), color_and_thing(shown), strict=True)
    return ":" + ",".join(f" {want} {see} {'yes' if want == see else 'no'}" for want, see in pairs)


def seen_name(identity: int) -> str:
    """Return the name of a cell's content as read from pixels."""
    return "smudge" if identity == UNREADABLE else name_of(identity)


def refine(drawn: DrawnImage) -> list[Clause]:
    """Return the oracle's clauses for the next attempt: those used and one more.

    The new clause is about the first wrong cell that should contain a thing, else the first that should be
    empty, else the backdrop. If all of these are already named, it is about the first unnamed cell of the
    edit.
    """
    expected, named = drawn.expected, {clause.cell for clause in drawn.clauses}
    wrong = faults(expected, drawn.seen)
    cells = sorted(
        (cell for cell in wrong if cell is not None), key=lambda cell: expected.cells[cell] == EMPTY
    )
    changed = changed_cells(drawn.scene_before, expected)
    for cell in [*cells, *([None] if None in wrong else []), *changed]:
        if cell not in named:
            stated = clauses_of(expected, [] if cell is None else [cell], backdrop=cell is None)
            return [*drawn.clauses, *stated][-MAX_CLAUSES:]
    return list(drawn.clauses)


def verdict_of(drawn: DrawnImage) -> Verdict:
    """Return the correct verdict with the oracle's refined prompt."""
    clauses = drawn.clauses if drawn.success else refine(drawn)
    return Verdict(
        success=drawn.success,
        refined_prompt=prompt_text(drawn.edit, clauses),
        reasoning=compare(drawn),
    )


def drawn_of(
    before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
) -> DrawnImage | None:
    """Convert an image of a run to the form of the row builders.

    Returns `None` if a prompt is not of the tiny world or the image before cannot be read.
    """
    wish, used = read_prompt(original_prompt), read_prompt(prompt_used)
    if wish is None:
        return None
    edit, _ = wish
    page = None if before is None or is_blank(before) else before
    scene = read_image(page).scene if page else None
    if scene is None and (page is not None or not isinstance(edit, StartScene)):
        return None
    clauses = tuple(used[1]) if used else ()
    return DrawnImage(page, scene, edit, clauses, after, read_image(after))


class OracleCritic:
    """Writes exact reasoning and correct refined prompts."""

    def answer(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str, success: bool
    ) -> Verdict | None:
        """Return the answer to learn; `None` if the images cannot be read or contradict `success`."""
        drawn = drawn_of(before, after, original_prompt, prompt_used)
        return verdict_of(drawn) if drawn is not None and drawn.success == success else None

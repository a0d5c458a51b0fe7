"""What a tiny-world page shows: a backdrop and, in each cell of a 3x3 grid, at most one coloured little
thing.

Decision: a scene is ten small integers, so that data, the exact scorer and the edits all work on values that
can be compared, and pictures are only a view of them (drawing.py). An edit that finds nothing to act on
changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

THINGS = ("sun", "moon", "cloud", "tree", "house", "boat", "fish", "bird", "flower", "star")
COLORS = ("red", "yellow", "blue", "white")
BACKDROPS = ("day", "night", "sea", "meadow")
CELLS = (
    "top left",
    "top",
    "top right",
    "left",
    "middle",
    "right",
    "bottom left",
    "bottom",
    "bottom right",
)
EMPTY = 0
IDENTITIES = 1 + len(THINGS) * len(COLORS)


def identity_of(color: str, thing: str) -> int:
    """Number (1..40) of a coloured thing; 0 is an empty cell."""
    return 1 + COLORS.index(color) * len(THINGS) + THINGS.index(thing)


def color_and_thing(identity: int) -> tuple[str, str]:
    """The inverse of `identity_of` for 1..40."""
    color, thing = divmod(identity - 1, len(THINGS))
    return COLORS[color], THINGS[thing]


def name_of(identity: int) -> str:
    """`red fish`, or `nothing` for an empty cell."""
    return "nothing" if identity == EMPTY else " ".join(color_and_thing(identity))


def thing_of(identity: int) -> str | None:
    """The thing alone, None for an empty cell."""
    return None if identity == EMPTY else color_and_thing(identity)[1]


@dataclass(frozen=True)
class Scene:
    """A page: `backdrop` 0..3 and nine cells in reading order, each 0 (empty) or 1..40."""

    backdrop: int
    cells: tuple[int, ...] = (EMPTY,) * 9

    def put(self, cell: int, identity: int) -> Scene:
        """The same page with one cell changed."""
        return Scene(self.backdrop, (*self.cells[:cell], identity, *self.cells[cell + 1 :]))

    def with_backdrop(self, backdrop: int) -> Scene:
        return Scene(backdrop, self.cells)

    def find(self, thing: str) -> list[int]:
        """Cells that hold this thing, in any colour."""
        return [cell for cell, identity in enumerate(self.cells) if thing_of(identity) == thing]

    @property
    def occupied(self) -> list[int]:
        return [cell for cell, identity in enumerate(self.cells) if identity != EMPTY]

    @property
    def free(self) -> list[int]:
        return [cell for cell, identity in enumerate(self.cells) if identity == EMPTY]


@dataclass(frozen=True)
class StartScene:
    """A page drawn from text alone; `named` are its occupied cells in the order in which they are
    named, () for reading order."""

    scene: Scene
    named: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.named == tuple(self.scene.occupied):
            object.__setattr__(self, "named", ())

    @property
    def order(self) -> list[int]:
        """The occupied cells in the order of telling."""
        return list(self.named) or self.scene.occupied

    def apply(self, before: Scene | None) -> Scene:
        return self.scene


@dataclass(frozen=True)
class Add:
    identity: int
    cell: int

    def apply(self, before: Scene) -> Scene:
        return before.put(self.cell, self.identity)


@dataclass(frozen=True)
class Remove:
    thing: str

    def apply(self, before: Scene) -> Scene:
        for cell in before.find(self.thing):
            before = before.put(cell, EMPTY)
        return before


@dataclass(frozen=True)
class Recolor:
    thing: str
    color: str

    def apply(self, before: Scene) -> Scene:
        for cell in before.find(self.thing):
            before = before.put(cell, identity_of(self.color, self.thing))
        return before


@dataclass(frozen=True)
class Move:
    thing: str
    cell: int

    def apply(self, before: Scene) -> Scene:
        found = before.find(self.thing)
        if not found:
            return before
        identity = before.cells[found[0]]
        for cell in found:
            before = before.put(cell, EMPTY)
        return before.put(self.cell, identity)


@dataclass(frozen=True)
class Replace:
    thing: str
    identity: int

    def apply(self, before: Scene) -> Scene:
        for cell in before.find(self.thing):
            before = before.put(cell, self.identity)
        return before


@dataclass(frozen=True)
class ChangeBackdrop:
    backdrop: int

    def apply(self, before: Scene) -> Scene:
        return before.with_backdrop(self.backdrop)


Edit = Add | Remove | Recolor | Move | Replace | ChangeBackdrop


def applies(edit: Edit, scene: Scene) -> bool:
    """Whether the edit has something to act on and room to do so, and changes the page."""
    if isinstance(edit, Remove | Recolor | Replace | Move) and len(scene.find(edit.thing)) != 1:
        return False
    if isinstance(edit, Add | Move) and scene.cells[edit.cell] != EMPTY:
        return False
    return edit.apply(scene) != scene

"""Content of a tiny-world image: a backdrop and at most one small colored object in each cell of a 3x3 grid.

A scene is ten small integers, so that data, scorer and edits work on comparable values, and images are only a
view of them (drawing.py). An edit without a target changes nothing.
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
    """Return the number (1 to 40) of a colored thing; 0 is an empty cell."""
    return 1 + COLORS.index(color) * len(THINGS) + THINGS.index(thing)


def color_and_thing(identity: int) -> tuple[str, str]:
    """Return color and thing of a number from 1 to 40."""
    color, thing = divmod(identity - 1, len(THINGS))
    return COLORS[color], THINGS[thing]


def name_of(identity: int) -> str:
    """Return a name such as `red fish`, or `nothing` for an empty cell."""
    return "nothing" if identity == EMPTY else " ".join(color_and_thing(identity))


def thing_of(identity: int) -> str | None:
    """Return the thing without its color; `None` for an empty cell."""
    return None if identity == EMPTY else color_and_thing(identity)[1]


@dataclass(frozen=True)
class Scene:
    """An image's content: `backdrop` 0 to 3, and nine cells in reading order, each 0 (empty) or 1 to 40."""

    backdrop: int
    cells: tuple[int, ...] = (EMPTY,) * 9

    def put(self, cell: int, identity: int) -> Scene:
        """Return the scene with one cell changed."""
        return Scene(self.backdrop, (*self.cells[:cell], identity, *self.cells[cell + 1 :]))

    def with_backdrop(self, backdrop: int) -> Scene:
        """Return the scene with another backdrop."""
        return Scene(backdrop, self.cells)

    def find(self, thing: str) -> list[int]:
        """Return the cells that contain this thing in any color."""
        return [cell for cell, identity in enumerate(self.cells) if thing_of(identity) == thing]

    @property
    def occupied(self) -> list[int]:
        """Cells that contain a thing."""
        return [cell for cell, identity in enumerate(self.cells) if identity != EMPTY]

    @property
    def free(self) -> list[int]:
        """Empty cells."""
        return [cell for cell, identity in enumerate(self.cells) if identity == EMPTY]


@dataclass(frozen=True)
class StartScene:
    """A scene generated from text alone.

    Attributes:
        scene: The scene.
        named: Its occupied cells in the order of the prompt; () for reading order.
    """

    scene: Scene
    named: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.named == tuple(self.scene.occupied):
            object.__setattr__(self, "named", ())

    @property
    def order(self) -> list[int]:
        """The occupied cells in the order of the prompt."""
        return list(self.named) or self.scene.occupied

    def apply(self, before: Scene | None) -> Scene:
        """Return the scene; `before` is ignored."""
        return self.scene


@dataclass(frozen=True)
class Add:
    """Adds a thing to a cell."""

    identity: int
    cell: int

    def apply(self, before: Scene) -> Scene:
        """Return the scene after this edit."""
        return before.put(self.cell, self.identity)


@dataclass(frozen=True)
class Remove:
    """Removes a thing."""

    thing: str

    def apply(self, before: Scene) -> Scene:
        """Return the scene after this edit."""
        for cell in before.find(self.thing):
            before = before.put(cell, EMPTY)
        return before


@dataclass(frozen=True)
class Recolor:
    """Changes the color of a thing."""

    thing: str
    color: str

    def apply(self, before: Scene) -> Scene:
        """Return the scene after this edit."""
        for cell in before.find(self.thing):
            before = before.put(cell, identity_of(self.color, self.thing))
        return before


@dataclass(frozen=True)
class Move:
    """Moves a thing to another cell."""

    thing: str
    cell: int

    def apply(self, before: Scene) -> Scene:
        """Return the scene after this edit."""
        found = before.find(self.thing)
        if not found:
            return before
        identity = before.cells[found[0]]
        for cell in found:
            before = before.put(cell, EMPTY)
        return before.put(self.cell, identity)


@dataclass(frozen=True)
class Replace:
    """Replaces a thing by another."""

    thing: str
    identity: int

    def apply(self, before: Scene) -> Scene:
        """Return the scene after this edit."""
        for cell in before.find(self.thing):
            before = before.put(cell, self.identity)
        return before


@dataclass(frozen=True)
class ChangeBackdrop:
    """Changes the backdrop."""

    backdrop: int

    def apply(self, before: Scene) -> Scene:
        """Return the scene after this edit."""
        return before.with_backdrop(self.backdrop)


Edit = Add | Remove | Recolor | Move | Replace | ChangeBackdrop


def applies(edit: Edit, scene: Scene) -> bool:
    """Whether the edit has a unique target and a free cell, and changes the scene."""
    if isinstance(edit, Remove | Recolor | Replace | Move) and len(scene.find(edit.thing)) != 1:
        return False
    if isinstance(edit, Add | Move) and scene.cells[edit.cell] != EMPTY:
        return False
    return edit.apply(scene) != scene

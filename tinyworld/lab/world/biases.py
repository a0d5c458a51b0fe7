"""Biases of the tiny world's generator: mistakes repeated with every seed until the prompt is explicit.

Large image models fail because of the request more than by chance. A blue sun becomes yellow, a boat in the
sky lands on the water, and no other seed helps. Three quarters of the mistakes in the training images
therefore follow from the scene and the edit alone, by ten rules that a person recognizes. A slip names the
affected cells. A clause about one of them prevents it; a stubborn slip needs a clause about each. The rules
are also listed in docs/explanation/tiny-world.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...runtime.scene import (
    BACKDROPS,
    EMPTY,
    Add,
    ChangeBackdrop,
    Edit,
    Move,
    Recolor,
    Remove,
    Replace,
    Scene,
    StartScene,
    color_and_thing,
    identity_of,
    thing_of,
)
from ...runtime.wording import Clause

USUAL_COLORS = {
    ("blue", "sun"): "yellow",
    ("red", "moon"): "white",
    ("yellow", "cloud"): "white",
    ("blue", "star"): "yellow",
}
"""Things in an unusual color, and the color that they get instead."""
RISING, SINKING = ("star",), ("boat",)
"""Things that belong in the sky, and things that belong on the water."""
COPYING = ("flower", "house")
"""Things that take the color of the first object in a first image."""
ROOTED = ("tree", "house", "flower")
"""Things that stay in place when they are moved, and also appear in the new place."""
AT_HOME = {
    "day": ("sun", "cloud"),
    "night": ("moon", "star"),
    "sea": ("boat", "fish"),
    "meadow": ("tree", "flower"),
}
"""Things that cannot be removed from a backdrop, because they belong to it."""
TURNING = {
    "night": ("sun", "moon"),
    "day": ("moon", "sun"),
    "sea": ("house", "boat"),
    "meadow": ("fish", "bird"),
}
"""What a new backdrop turns a thing into that does not belong there."""
KEEPING = ("fish", "bird", "boat")
"""Things that keep the color of what they replace."""
LEAKING = ("red", "blue")
"""Colors that run into the neighboring object."""


@dataclass(frozen=True)
class Slip:
    """One active bias.

    Attributes:
        bias: Its name.
        puts: Content that it puts into cells (0 to 8).
        stubborn: Whether clauses about all of these cells are needed to prevent it, instead of one.
    """

    bias: str
    puts: Mapping[int, int]
    stubborn: bool = False

    def is_kept_away(self, clauses: Sequence[Clause]) -> bool:
        """Whether the clauses prevent the slip."""
        named = {clause.cell for clause in clauses}
        return (all if self.stubborn else any)(cell in named for cell in self.puts)


Rule = Callable[[Scene | None, Edit | StartScene, Scene], Iterator[Slip]]


def slips(before: Scene | None, edit: Edit | StartScene, clauses: Sequence[Clause]) -> list[Slip]:
    """Return the slips of an edit with these clauses, for every seed, in the order of RULES."""
    after = edit.apply(before)  # pyright: ignore[reportArgumentType]
    found = (slip for rule in RULES for slip in rule(before, edit, after))
    return [slip for slip in found if not slip.is_kept_away(clauses)]


def biased(before: Scene | None, edit: Edit | StartScene, clauses: Sequence[Clause]) -> Scene:
    """Return the scene after an edit with biases only. If two affect a cell, the first applies."""
    drawn, touched = edit.apply(before), set[int]()  # pyright: ignore[reportArgumentType]
    for slip in slips(before, edit, clauses):
        if touched.isdisjoint(slip.puts):
            touched.update(slip.puts)
            for cell, content in slip.puts.items():
                drawn = drawn.put(cell, content)
    return drawn


def _new_things(edit: Edit | StartScene, after: Scene) -> list[int]:
    """Return the cells of things that an edit adds or paints."""
    match edit:
        case StartScene():
            return edit.order
        case Add(_, cell) | Move(_, cell):
            return [cell]
        case Recolor(thing, _):
            return after.find(thing)
        case Replace(_, identity):
            return [cell for cell, content in enumerate(after.cells) if content == identity]
        case _:
            return []


def _usual_color(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """A blue sun becomes yellow."""
    if isinstance(edit, Move):
        return
    for cell in _new_things(edit, after):
        color, thing = color_and_thing(after.cells[cell])
        if usual := USUAL_COLORS.get((color, thing)):
            yield Slip("usual colour", {cell: identity_of(usual, thing)})


def _elsewhere(
    edit: Edit | StartScene, after: Scene, things: Sequence[str], rows: tuple[int, int]
) -> Iterator[Slip]:
    if not isinstance(edit, StartScene | Add | Move):
        return
    start, goal = rows
    for cell in _new_things(edit, after):
        other = goal * 3 + cell % 3
        belongs = thing_of(after.cells[cell]) not in things
        if cell // 3 == start and not belongs and after.cells[other] == EMPTY:
            yield Slip("up or down", {cell: EMPTY, other: after.cells[cell]})


def _rising(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """A star at the bottom rises to the top."""
    yield from _elsewhere(edit, after, RISING, (2, 0))


def _sinking(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """A boat in the sky sinks to the water."""
    yield from _elsewhere(edit, after, SINKING, (0, 2))


def _copied_color(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """The second object of a first image takes the color of the first."""
    if isinstance(edit, StartScene) and len(edit.order) > 1:
        first, second = edit.order[:2]
        color, _ = color_and_thing(after.cells[first])
        own, thing = color_and_thing(after.cells[second])
        if thing in COPYING and own != color:
            yield Slip("first one's colour", {second: identity_of(color, thing)})


def _sides(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """Left and right are swapped if the object on the right is named first."""
    if isinstance(edit, StartScene) and len(edit.order) > 1:
        first, second = edit.order[:2]
        if first % 3 == 2 and second == first - 2 and after.cells[first] != after.cells[second]:
            swapped = {first: after.cells[second], second: after.cells[first]}
            yield Slip("left and right", swapped, stubborn=True)


def _rooted(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """A tree that is moved also stays where it was."""
    if isinstance(edit, Move) and before is not None and edit.thing in ROOTED:
        for old in before.find(edit.thing):
            yield Slip("stays", {old: before.cells[old], edit.cell: after.cells[edit.cell]}, stubborn=True)


def _at_home(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """The sun cannot be removed from a day scene."""
    if isinstance(edit, Remove) and before is not None and edit.thing in AT_HOME[BACKDROPS[before.backdrop]]:
        for cell in before.find(edit.thing):
            yield Slip("belongs there", {cell: before.cells[cell]})


def _turning(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """At night the sun becomes a moon."""
    if isinstance(edit, ChangeBackdrop):
        thing, other = TURNING[BACKDROPS[edit.backdrop]]
        for cell in after.find(thing):
            color, _ = color_and_thing(after.cells[cell])
            yield Slip("turns with the page", {cell: identity_of(color, other)})


def _kept_color(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """A fish that replaces a red boat is red."""
    if isinstance(edit, Replace) and before is not None:
        color, thing = color_and_thing(edit.identity)
        for cell in before.find(edit.thing):
            old, _ = color_and_thing(before.cells[cell])
            if thing in KEEPING and old != color:
                yield Slip("old one's colour", {cell: identity_of(old, thing)})


def _leaking_color(before: Scene | None, edit: Edit | StartScene, after: Scene) -> Iterator[Slip]:
    """Red paint runs into the object on the right, or else on the left."""
    if not isinstance(edit, Recolor) or edit.color not in LEAKING:
        return
    for cell in after.find(edit.thing):
        for other in [cell + 1] * (cell % 3 < 2) + [cell - 1] * (cell % 3 > 0):
            if after.cells[other] == EMPTY:
                continue
            color, thing = color_and_thing(after.cells[other])
            if color != edit.color:
                painted = {other: identity_of(edit.color, thing), cell: after.cells[cell]}
                yield Slip("paint runs over", painted, stubborn=True)
            break


RULES: tuple[Rule, ...] = (
    _usual_color,
    _rising,
    _sinking,
    _copied_color,
    _sides,
    _rooted,
    _at_home,
    _turning,
    _kept_color,
    _leaking_color,
)

"""Random scenes and edits, and the mistakes in training images with terse captions.

Mistakes are made in the scene and not in the pixels, and each belongs to cells or the backdrop. Two thirds
follow from the request (`biased`); the rest is chance. A clause that names the cell removes its mistakes.
Because of this one rule a precise prompt is more reliable than a terse one, naming the wrong cell repairs it,
and a lazy refined prompt or another seed does not.

Biases are mistakes repeated with every seed until the prompt is explicit. Large image models fail because of
the request more than by chance: a blue sun becomes yellow, a boat in the sky lands on the water. Ten rules
that a person recognizes make them from the scene and the edit alone. A slip names the affected cells. A
clause about one of them prevents it; a stubborn slip needs a clause about each. The rules are also listed in
docs/explanation/tiny-world.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ....tinyworld.oracle import changed_cells
from ....tinyworld.scene import (
    BACKDROPS,
    COLORS,
    EMPTY,
    IDENTITIES,
    THINGS,
    Add,
    ChangeBackdrop,
    Edit,
    Move,
    Recolor,
    Remove,
    Replace,
    Scene,
    StartScene,
    applies,
    color_and_thing,
    identity_of,
    thing_of,
)
from ....tinyworld.wording import Clause, clauses_of

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


MAX_THINGS, MAX_CLAUSES = 5, 4
# Probabilities of a mistake with a caption that does not name the cell: where the edit acts (shared by its
# cells), for a new backdrop, for an object to keep, and for an empty cell; then for anything that is named.
# They are chosen so that, with the biases, about two of three steps are correct at the first attempt.
TARGET_MISTAKES, BACKDROP_MISTAKES, KEPT_MISTAKES, EMPTY_MISTAKES = 0.06, 0.03, 0.012, 0.001
PRECISE_MISTAKES = 0.004
GROUPS = {
    "top row": (0, 1, 2),
    "middle row": (3, 4, 5),
    "bottom row": (6, 7, 8),
    "top corners": (0, 2),
    "bottom corners": (6, 8),
    "left corners": (0, 6),
    "right corners": (2, 8),
}
"""Positions of several equal objects in a first image, by name, in reading order."""
COUNTED = 0.125


def random_scene(rng: Random, least: int = 1, most: int = MAX_THINGS) -> Scene:
    """Return a scene with `least` to `most` different things, in random colors and cells."""
    scene = Scene(rng.randrange(len(BACKDROPS)))
    count = rng.randint(least, most)
    for cell, thing in zip(rng.sample(range(9), count), rng.sample(THINGS, count), strict=True):
        scene = scene.put(cell, identity_of(rng.choice(COLORS), thing))
    return scene


def random_start(rng: Random, least: int = 1) -> StartScene:
    """Return a first image with `least` to three things in any order; one in eight has equal things."""
    if rng.random() < COUNTED:
        return _counted_start(rng)
    scene = random_scene(rng, least, 3)
    return StartScene(scene, tuple(rng.sample(scene.occupied, len(scene.occupied))))


def _counted_start(rng: Random) -> StartScene:
    """Return a first image with two or three equal things in one of GROUPS, sometimes plus another thing."""
    group = rng.choice(list(GROUPS.values()))
    thing, other = rng.sample(THINGS, 2)
    scene, identity = Scene(rng.randrange(len(BACKDROPS))), identity_of(rng.choice(COLORS), thing)
    for cell in group:
        scene = scene.put(cell, identity)
    if len(group) == 3 or rng.random() < 0.5:
        return StartScene(scene, group)
    cell = rng.choice(scene.free)
    scene = scene.put(cell, identity_of(rng.choice(COLORS), other))
    return StartScene(scene, (cell, *group) if rng.random() < 0.5 else (*group, cell))


def absent_thing(rng: Random, scene: Scene) -> str:
    """Return a thing that the scene does not contain."""
    return rng.choice([thing for thing in THINGS if not scene.find(thing)])


def random_edit(rng: Random, scene: Scene) -> Edit:
    """Return an edit that applies to the scene. All possible kinds are about equally frequent."""
    kinds = ["backdrop"]
    if scene.occupied:
        kinds += ["remove", "recolor", "move", "replace"]
    if len(scene.occupied) < MAX_THINGS:
        kinds += ["add", "add"]
    while True:
        edit = _edit(rng, scene, rng.choice(kinds))
        if applies(edit, scene):
            return edit


def _edit(rng: Random, scene: Scene, kind: str) -> Edit:
    if kind == "backdrop":
        return ChangeBackdrop(rng.randrange(len(BACKDROPS)))
    if kind == "add":
        return Add(identity_of(rng.choice(COLORS), absent_thing(rng, scene)), rng.choice(scene.free))
    thing = thing_of(scene.cells[rng.choice(scene.occupied)])
    assert thing is not None
    match kind:
        case "remove":
            return Remove(thing)
        case "recolor":
            return Recolor(thing, rng.choice(COLORS))
        case "move":
            return Move(thing, rng.choice(scene.free))
        case _:
            return Replace(thing, identity_of(rng.choice(COLORS), absent_thing(rng, scene)))


def random_clauses(rng: Random, before: Scene | None, after: Scene) -> list[Clause]:
    """Return true clauses about `after`: mostly about changed or occupied cells, sometimes an empty one."""
    likely = sorted({*changed_cells(before, after), *after.occupied})
    cells = set(rng.sample(likely, rng.randint(0, min(MAX_CLAUSES, len(likely)))))
    if after.free and rng.random() < 0.25:
        cells.add(rng.choice(after.free))
    clauses = clauses_of(after, sorted(cells), backdrop=rng.random() < 0.3)
    rng.shuffle(clauses)
    return clauses[:MAX_CLAUSES]


Luck = Sequence[tuple[float, float, float]]
"""Per cell three numbers from 0 to 1: whether a mistake happens, its kind, and its variant."""


def misdraw(
    before: Scene | None, edit: Edit | StartScene, clauses: Sequence[Clause], luck: Luck, by_bias: bool = True
) -> Scene:
    """Return the scene of a careless artist: correct, or with mistakes from biases and luck.

    The backdrop shares the luck of the middle cell, from the other end of its range.

    Args:
        before: Scene before the edit.
        edit: The edit.
        clauses: Clauses of the prompt.
        luck: Luck of the nine cells.
        by_bias: Whether biases apply in addition to luck.
    """
    after = edit.apply(before)  # pyright: ignore[reportArgumentType]
    named = {clause.cell for clause in clauses}
    targets = changed_cells(before, after)
    drawn = biased(before, edit, clauses) if by_bias else after
    for cell in range(9):
        happens, kind, which = luck[cell]
        if happens < _chance(after, cell, cell in targets, len(targets), cell in named):
            old = before.cells[cell] if before else EMPTY
            drawn = _spoil(drawn, after, cell, old, kind, which)
    happens, kind, which = luck[4]
    chance = PRECISE_MISTAKES if None in named else BACKDROP_MISTAKES
    if (before is None or before.backdrop != after.backdrop) and happens > 1 - chance:
        others = [b for b in range(len(BACKDROPS)) if b != after.backdrop]
        drawn = drawn.with_backdrop(_pick(others, which))
    return drawn


def _chance(after: Scene, cell: int, is_target: bool, targets: int, named: bool) -> float:
    if named:
        return PRECISE_MISTAKES
    if is_target:
        return TARGET_MISTAKES / targets
    return EMPTY_MISTAKES if after.cells[cell] == EMPTY else KEPT_MISTAKES


def _pick(choices: Sequence[int], which: float) -> int:
    return choices[min(len(choices) - 1, int(which * len(choices)))]


def _spoil(drawn: Scene, after: Scene, cell: int, old: int, kind: float, which: float) -> Scene:
    """Make one mistake in a cell: a stray, remaining or missing object, or a wrong cell, color or kind."""
    right = after.cells[cell]
    if right == EMPTY:
        return drawn.put(cell, old if old != EMPTY else 1 + int(which * (IDENTITIES - 1)) % (IDENTITIES - 1))
    color, thing = color_and_thing(right)
    if kind < 0.2:
        return drawn.put(cell, old if old != right else EMPTY)
    if kind < 0.4:
        near = [free for free in drawn.free if abs(free % 3 - cell % 3) + abs(free // 3 - cell // 3) == 1]
        return drawn.put(cell, EMPTY).put(_pick(near, which), right) if near else drawn.put(cell, EMPTY)
    if kind < 0.8:
        others = [identity_of(other, thing) for other in COLORS if other != color]
    else:
        others = [identity_of(color, other) for other in THINGS if other != thing]
    return drawn.put(cell, _pick(others, which))


def random_luck(rng: Random) -> Luck:
    """Return luck that is independent of everything."""
    return [(rng.random(), rng.random(), rng.random()) for _ in range(9)]

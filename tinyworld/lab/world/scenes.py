"""Random scenes and edits, and the mistakes in training images with terse captions.

Mistakes are made in the scene and not in the pixels, and each belongs to cells or the backdrop. Two thirds
follow from the request (biases.py); the rest is chance. A clause that names the cell removes its mistakes.
Because of this one rule a precise prompt is more reliable than a terse one, naming the wrong cell repairs it,
and a lazy refined prompt or another seed does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ...runtime.scene import (
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
from ...runtime.wording import Clause, clauses_of
from .biases import biased

MAX_THINGS = 5
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


def random_start(rng: Random, least: int = 1, most: int = 3) -> StartScene:
    """Return a first image with `least` to `most` things in any order; one in eight has equal things."""
    if rng.random() < COUNTED and most > 2:
        return _counted_start(rng)
    scene = random_scene(rng, least, most)
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


def changed_cells(before: Scene | None, after: Scene) -> list[int]:
    """Return the cells that an edit changes; for a first image, its things."""
    if before is None:
        return after.occupied
    return [cell for cell in range(9) if before.cells[cell] != after.cells[cell]]


def random_clauses(rng: Random, before: Scene | None, after: Scene, most: int = 4) -> list[Clause]:
    """Return true clauses about `after`: mostly about changed or occupied cells, sometimes an empty one."""
    likely = sorted({*changed_cells(before, after), *after.occupied})
    cells = set(rng.sample(likely, rng.randint(0, min(most, len(likely)))))
    if after.free and rng.random() < 0.25:
        cells.add(rng.choice(after.free))
    clauses = clauses_of(after, sorted(cells), backdrop=rng.random() < 0.3)
    rng.shuffle(clauses)
    return clauses[:most]


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

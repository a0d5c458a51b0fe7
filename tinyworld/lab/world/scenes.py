"""Random pages and edits, and the mistakes that pictures under terse captions come with.

Decision: mistakes are made in the scene, not in the pixels, and every mistake belongs to cells (or the
backdrop). Two thirds of them follow from what is asked (biases.py), the rest is luck. A clause that names the
cell takes its mistakes away. That one rule is why a precise prompt is drawn more reliably than a terse one,
why naming the cell that went wrong repairs it, and why a lazy remedy or another seed does not.
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
# Chances of a mistake under a caption that does not name the cell: where the edit acts (shared by its cells),
# for the backdrop where it is new, for a thing to keep, for an empty cell; and anywhere that is named. Chosen
# so that with the biases about two steps of three come out right at the first attempt.
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
"""Where several equal things of a first page stand, as it is told, in reading order."""
COUNTED = 0.125


def random_scene(rng: Random, least: int = 1, most: int = MAX_THINGS) -> Scene:
    """A page with `least`..`most` different things in random colours and cells."""
    scene = Scene(rng.randrange(len(BACKDROPS)))
    count = rng.randint(least, most)
    for cell, thing in zip(rng.sample(range(9), count), rng.sample(THINGS, count), strict=True):
        scene = scene.put(cell, identity_of(rng.choice(COLORS), thing))
    return scene


def random_start(rng: Random, least: int = 1, most: int = 3) -> StartScene:
    """A first page with `least`..`most` things, told in any order, as people tell them; one in eight with
    several equal ones."""
    if rng.random() < COUNTED and most > 2:
        return _counted_start(rng)
    scene = random_scene(rng, least, most)
    return StartScene(scene, tuple(rng.sample(scene.occupied, len(scene.occupied))))


def _counted_start(rng: Random) -> StartScene:
    """A first page with two or three equal things in one of GROUPS, two sometimes with another thing."""
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
    """A thing of which the page has none."""
    return rng.choice([thing for thing in THINGS if not scene.find(thing)])


def random_edit(rng: Random, scene: Scene) -> Edit:
    """An edit that applies to the page: all six kinds about equally often where they are possible."""
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
    """Cells in which an edit acts; for a first page, its things."""
    if before is None:
        return after.occupied
    return [cell for cell in range(9) if before.cells[cell] != after.cells[cell]]


def random_clauses(rng: Random, before: Scene | None, after: Scene, most: int = 4) -> list[Clause]:
    """True clauses about `after`: mostly about cells that change or hold something, sometimes about an empty
    one."""
    likely = sorted({*changed_cells(before, after), *after.occupied})
    cells = set(rng.sample(likely, rng.randint(0, min(most, len(likely)))))
    if after.free and rng.random() < 0.25:
        cells.add(rng.choice(after.free))
    clauses = clauses_of(after, sorted(cells), backdrop=rng.random() < 0.3)
    rng.shuffle(clauses)
    return clauses[:most]


Luck = Sequence[tuple[float, float, float]]
"""For each cell three numbers in 0..1: whether a mistake happens there, which kind, and which of that
kind."""


def misdraw(
    before: Scene | None, edit: Edit | StartScene, clauses: Sequence[Clause], luck: Luck, by_bias: bool = True
) -> Scene:
    """The scene that a draughtsman of uneven care draws: right, or with the mistakes of the biases, and where
    `luck` (nine cells) has them; with luck's alone if not `by_bias`.

    The backdrop shares the middle cell's luck, from the other end of its range.
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
    """One mistake in a cell: a stray thing, something left or lost, the wrong cell, the wrong colour or
    thing."""
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
    """Luck that depends on nothing."""
    return [(rng.random(), rng.random(), rng.random()) for _ in range(9)]

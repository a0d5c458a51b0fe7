"""Random scenes, edits that apply to them, and clauses about the result."""

from __future__ import annotations

from random import Random

from ....tinyworld.oracle import changed_cells
from ....tinyworld.scene import (
    BACKDROPS,
    COLORS,
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
    identity_of,
    thing_of,
)
from ....tinyworld.wording import Clause, clauses_of

MAX_THINGS, MAX_CLAUSES = 5, 4
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

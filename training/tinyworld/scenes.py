"""Random pages and edits, and the mistakes that pictures under terse captions come with.

Decision: mistakes are made in the scene, not in the pixels, and every mistake belongs to a cell (or the backdrop). A
clause that names the cell takes its mistakes away. That one rule is why a precise prompt is drawn more reliably than a
terse one, why naming the cell that went wrong repairs it, and why a lazy remedy does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ...backend.tinyworld.scene import (
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
    Start,
    applies,
    color_and_thing,
    identity_of,
    thing_of,
)
from ...backend.tinyworld.wording import Clause, clauses_of

MAX_THINGS = 5
# Share of pictures with a mistake where the edit acts, and elsewhere, under a caption without clauses; with a clause
# that names the cell. Chosen so that about three steps of four come out right at the first attempt.
TARGET_MISTAKES, COLLATERAL_MISTAKES, PRECISE_MISTAKES = 0.17, 0.09, 0.01


def random_scene(rng: Random, least: int = 1, most: int = MAX_THINGS) -> Scene:
    """A page with `least`..`most` different things in random colours and cells."""
    scene = Scene(rng.randrange(len(BACKDROPS)))
    count = rng.randint(least, most)
    for cell, thing in zip(rng.sample(range(9), count), rng.sample(THINGS, count), strict=True):
        scene = scene.put(cell, identity_of(rng.choice(COLORS), thing))
    return scene


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
    """True clauses about `after`: mostly about cells that change or hold something, sometimes about an empty one."""
    likely = sorted({*changed_cells(before, after), *after.occupied})
    cells = set(rng.sample(likely, rng.randint(0, min(most, len(likely)))))
    if after.free and rng.random() < 0.25:
        cells.add(rng.choice(after.free))
    clauses = clauses_of(after, sorted(cells), backdrop=rng.random() < 0.3)
    rng.shuffle(clauses)
    return clauses[:most]


def _wrong_content(rng: Random, right: int, before: int) -> int:
    """Something else than what a cell should hold: another colour, another thing, or what was there before."""
    if right == EMPTY:
        return before if before != EMPTY else rng.randrange(1, IDENTITIES)
    color, thing = color_and_thing(right)
    choice = rng.random()
    if choice < 0.45:
        return identity_of(rng.choice([c for c in COLORS if c != color]), thing)
    if choice < 0.7:
        return identity_of(color, rng.choice([t for t in THINGS if t != thing]))
    return before if before != right else EMPTY


def _misdraw_target(rng: Random, before: Scene | None, after: Scene, cell: int) -> Scene:
    old = before.cells[cell] if before else EMPTY
    misplaced = after.cells[cell] != EMPTY and after.free and rng.random() < 0.3
    if misplaced:
        neighbours = [f for f in after.free if abs(f % 3 - cell % 3) + abs(f // 3 - cell // 3) == 1]
        return after.put(cell, EMPTY).put(rng.choice(neighbours or after.free), after.cells[cell])
    return after.put(cell, _wrong_content(rng, after.cells[cell], old))


def misdraw(rng: Random, before: Scene | None, edit: Edit | Start, clauses: Sequence[Clause]) -> Scene:
    """The scene that a draughtsman of uneven care draws: right, or with a mistake that no clause forbids."""
    after = edit.apply(before)  # pyright: ignore[reportArgumentType]
    named = {clause.cell for clause in clauses}
    targets = changed_cells(before, after)
    page_is_target = before is None or before.backdrop != after.backdrop
    drawn = after
    for cell in targets:
        chance = PRECISE_MISTAKES if cell in named else TARGET_MISTAKES / len(targets)
        if rng.random() < chance:
            drawn = _misdraw_target(rng, before, drawn, cell)
    if page_is_target:
        chance = PRECISE_MISTAKES if None in named else TARGET_MISTAKES / (1 if before else 3)
        if rng.random() < chance:
            wrong = [b for b in range(len(BACKDROPS)) if b != after.backdrop]
            drawn = drawn.with_backdrop(rng.choice(wrong))
    if before is not None and rng.random() < COLLATERAL_MISTAKES:
        drawn = _spoil_elsewhere(rng, drawn, after, [*targets, *[c for c in named if c is not None]])
    return drawn


def _spoil_elsewhere(rng: Random, drawn: Scene, after: Scene, spared: Sequence[int]) -> Scene:
    kept = [cell for cell in after.occupied if cell not in spared]
    free = [cell for cell in after.free if cell not in spared]
    if kept and rng.random() < 0.7:
        cell = rng.choice(kept)
        color, thing = color_and_thing(after.cells[cell])
        other = identity_of(rng.choice([c for c in COLORS if c != color]), thing)
        return drawn.put(cell, rng.choice([EMPTY, other, other]))
    if free:
        return drawn.put(rng.choice(free), rng.randrange(1, IDENTITIES))
    return drawn

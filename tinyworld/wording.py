"""Prompts of the tiny world: one plain sentence for an edit, and clauses that make it precise.

A terse prompt states only the edit ("add a red fish at the top left"). A precise one adds clauses about
single cells ("; a red fish must be at the top left; nothing must be at the middle"), each of which prevents
one kind of mistake. Writer and reader are exact inverses, which makes the scorer exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .scene import (
    BACKDROPS,
    CELLS,
    COLORS,
    EMPTY,
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
    identity_of,
    name_of,
)

_THING = "|".join(THINGS)
_COLOR = "|".join(COLORS)
_CELL = "|".join(sorted(CELLS, key=len, reverse=True))
_BACKDROP = "|".join(BACKDROPS)
_OBJECT = rf"a (?:{_COLOR}) (?:{_THING}) at the (?:{_CELL})"


@dataclass(frozen=True)
class Clause:
    """States the content (0 to 40) of a cell (0 to 8), or the backdrop if `cell` is `None`."""

    cell: int | None
    content: int

    def text(self) -> str:
        """Return the clause as text."""
        if self.cell is None:
            return f"the page must be {BACKDROPS[self.content]}"
        subject = "nothing" if self.content == EMPTY else f"a {name_of(self.content)}"
        return f"{subject} must be at the {CELLS[self.cell]}"


def clauses_of(scene: Scene, cells: Iterable[int], backdrop: bool = False) -> list[Clause]:
    """Return clauses that state the content of these cells and, optionally, the backdrop."""
    stated = [Clause(cell, scene.cells[cell]) for cell in cells]
    return [*stated, Clause(None, scene.backdrop)] if backdrop else stated


def edit_text(edit: Edit | StartScene) -> str:
    """Return the terse prompt of an edit or a first scene."""
    match edit:
        case StartScene(scene):
            things = [f"a {name_of(scene.cells[c])} at the {CELLS[c]}" for c in edit.order]
            return f"a {BACKDROPS[scene.backdrop]} page" + (f" with {' and '.join(things)}" if things else "")
        case Add(identity, cell):
            return f"add a {name_of(identity)} at the {CELLS[cell]}"
        case Remove(thing):
            return f"remove the {thing}"
        case Recolor(thing, color):
            return f"make the {thing} {color}"
        case Move(thing, cell):
            return f"move the {thing} to the {CELLS[cell]}"
        case Replace(thing, identity):
            return f"replace the {thing} with a {name_of(identity)}"
        case ChangeBackdrop(backdrop):
            return f"change the page to {BACKDROPS[backdrop]}"


def prompt_text(edit: Edit | StartScene, clauses: Iterable[Clause] = ()) -> str:
    """Return the prompt of an edit with its clauses."""
    return "; ".join([edit_text(edit), *(clause.text() for clause in clauses)])


_PATTERNS = [
    ("start", re.compile(rf"a ({_BACKDROP}) page(?: with ({_OBJECT}(?: and {_OBJECT})*))?")),
    ("add", re.compile(rf"add a ({_COLOR}) ({_THING}) at the ({_CELL})")),
    ("remove", re.compile(rf"remove the ({_THING})")),
    ("recolor", re.compile(rf"make the ({_THING}) ({_COLOR})")),
    ("move", re.compile(rf"move the ({_THING}) to the ({_CELL})")),
    ("replace", re.compile(rf"replace the ({_THING}) with a ({_COLOR}) ({_THING})")),
    ("backdrop", re.compile(rf"change the page to ({_BACKDROP})")),
]
_CLAUSE = re.compile(rf"(?:a ({_COLOR}) ({_THING})|(nothing)) must be at the ({_CELL})")
_PAGE_CLAUSE = re.compile(rf"the page must be ({_BACKDROP})")


def _read_edit(text: str) -> Edit | StartScene | None:
    for kind, pattern in _PATTERNS:
        found = pattern.fullmatch(text)
        if not found:
            continue
        parts = found.groups()
        match kind:
            case "start":
                scene, named = Scene(BACKDROPS.index(parts[0])), dict[int, None]()
                for color, thing, cell in re.findall(
                    rf"a ({_COLOR}) ({_THING}) at the ({_CELL})", parts[1] or ""
                ):
                    scene = scene.put(CELLS.index(cell), identity_of(color, thing))
                    named[CELLS.index(cell)] = None
                return StartScene(scene, tuple(named))
            case "add":
                return Add(identity_of(parts[0], parts[1]), CELLS.index(parts[2]))
            case "remove":
                return Remove(parts[0])
            case "recolor":
                return Recolor(parts[0], parts[1])
            case "move":
                return Move(parts[0], CELLS.index(parts[1]))
            case "replace":
                return Replace(parts[0], identity_of(parts[1], parts[2]))
            case "backdrop":
                return ChangeBackdrop(BACKDROPS.index(parts[0]))
    return None


def read_prompt(text: str) -> tuple[Edit | StartScene, list[Clause]] | None:
    """Parse a prompt into its edit and clauses, ignoring case and a final full stop.

    Returns `None` if it does not follow this grammar.
    """
    first, *rest = [part.strip() for part in text.strip().rstrip(".").lower().split(";")]
    edit = _read_edit(first)
    if edit is None:
        return None
    clauses: list[Clause] = []
    for part in rest:
        if found := _CLAUSE.fullmatch(part):
            color, thing, _, cell = found.groups()
            clauses.append(Clause(CELLS.index(cell), identity_of(color, thing) if thing else EMPTY))
        elif found := _PAGE_CLAUSE.fullmatch(part):
            clauses.append(Clause(None, BACKDROPS.index(found.group(1))))
        else:
            return None
    return edit, clauses

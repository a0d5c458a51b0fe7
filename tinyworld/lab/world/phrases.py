"""Phrases for a story's steps: several per edit, numbers for equal objects, and relative positions.

Nothing is said that the plan does not need, and all phrasings of a story have the same plan. Phrases that
were never used in training are in planning/other_wordings.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ...runtime.scene import (
    BACKDROPS,
    CELLS,
    Add,
    ChangeBackdrop,
    Edit,
    Move,
    Recolor,
    Remove,
    Replace,
    StartScene,
    color_and_thing,
    name_of,
    thing_of,
)
from .scenes import GROUPS

_PLACES = {
    "top left": ["at the top left", "in the top left corner", "at the upper left"],
    "top": ["at the top", "at the top centre"],
    "top right": ["at the top right", "in the top right corner", "at the upper right"],
    "left": ["at the left", "on the left side"],
    "middle": ["in the middle", "at the centre", "in the centre"],
    "right": ["at the right", "on the right side"],
    "bottom left": ["at the bottom left", "in the bottom left corner", "at the lower left"],
    "bottom": ["at the bottom", "at the bottom centre"],
    "bottom right": ["at the bottom right", "in the bottom right corner", "at the lower right"],
}
_TARGETS = {
    place: [
        w.replace("at the", "to the").replace("in the", "to the").replace("on the", "to the") for w in words
    ]
    for place, words in _PLACES.items()
}
_RELATIONS = {
    (-1, 0): ["above"],
    (1, 0): ["below", "under"],
    (0, -1): ["to the left of"],
    (0, 1): ["to the right of"],
}
"""Rows down and columns to the right, from the other object to the one that is placed."""
RELATED = 0.5
"""Probability that an object next to the last-named one is placed relative to it."""
_NUMBERS = {2: "two", 3: "three"}


@dataclass(frozen=True)
class TextStep:
    """A text-only step."""

    text: str


@dataclass(frozen=True)
class LastNamed:
    """The object that was named last, to which "it" refers, and its cell if it was mentioned."""

    thing: str
    cell: int | None = None


def _place(rng: Random, cell: int, last: LastNamed | None) -> str:
    """Describe a cell by its own name, or relative to the object named last."""
    if last is not None and last.cell is not None:
        offset = cell // 3 - last.cell // 3, cell % 3 - last.cell % 3
        if offset in _RELATIONS and rng.random() < RELATED:
            return f"{rng.choice(_RELATIONS[offset])} {_it(rng, last.thing, last)}"
    return rng.choice(_PLACES[CELLS[cell]])


def _it(rng: Random, thing: str, last: LastNamed | None) -> str:
    return "it" if last is not None and thing == last.thing and rng.random() < 0.5 else f"the {thing}"


def _things(rng: Random, act: StartScene) -> str:
    """Describe the objects of a first image in order; equal ones of a group as a number."""
    told: list[str] = []
    order, last = act.order, None
    while order:
        cell, identity = order[0], act.scene.cells[order[0]]
        count = sum(act.scene.cells[other] == identity for other in order)
        if count > 1:
            where = next(name for name, cells in GROUPS.items() if cells == tuple(order[:count]))
            told.append(f"{_NUMBERS[count]} {_plural(identity)} in the {where}")
            last = None
        else:
            told.append(f"a {name_of(identity)} {_place(rng, cell, last)}")
            last = LastNamed(color_and_thing(identity)[1], cell)
        order = order[count:]
    return " and ".join(told)


def _plural(identity: int) -> str:
    name = name_of(identity)
    return name if name.endswith("fish") else f"{name}s"


def _phrase(rng: Random, act: Edit | StartScene | TextStep, last: LastNamed | None) -> str:
    """Phrase one step in lower case, without a full stop."""
    match act:
        case TextStep(text):
            return (
                f"{rng.choice(['write only the words', 'show just the text', 'only say'])}: "
                f"{text.rstrip('.')}"
            )
        case StartScene(scene):
            backdrop = BACKDROPS[scene.backdrop]
            things = _things(rng, act)
            return rng.choice(
                [
                    f"draw a {backdrop} page with {things}",
                    f"start with a {backdrop} page that has {things}",
                    f"a {backdrop} scene with {things}",
                    f"show {things} on a {backdrop} page",
                    f"begin on a {backdrop} page: {things}",
                ]
            )
        case Add(identity, cell):
            new, place = f"a {name_of(identity)}", _place(rng, cell, last)
            return rng.choice(
                [
                    f"add {new} {place}",
                    f"put {new} {place}",
                    f"draw {new} {place}",
                    f"{new} appears {place}",
                    f"{place} comes {new}",
                    f"place {new} {place}",
                ]
            )
        case Remove(thing):
            it = _it(rng, thing, last)
            return rng.choice(
                [f"remove {it}", f"take {it} away", f"erase {it}", f"{it} disappears", f"get rid of {it}"]
            )
        case Recolor(thing, color):
            it = _it(rng, thing, last)
            return rng.choice(
                [
                    f"make {it} {color}",
                    f"paint {it} {color}",
                    f"{it} turns {color}",
                    f"{it} becomes {color}",
                    f"change the colour of {it} to {color}",
                ]
            )
        case Move(thing, cell):
            it = _it(rng, thing, last)
            place = rng.choice(_TARGETS[CELLS[cell]])
            return rng.choice(
                [f"move {it} {place}", f"{it} goes {place}", f"send {it} {place}", f"{it} travels {place}"]
            )
        case Replace(thing, identity):
            it = _it(rng, thing, last)
            new = name_of(identity)
            return rng.choice(
                [
                    f"replace {it} with a {new}",
                    f"swap {it} for a {new}",
                    f"{it} becomes a {new}",
                    f"turn {it} into a {new}",
                ]
            )
        case ChangeBackdrop(backdrop):
            name = BACKDROPS[backdrop]
            return rng.choice(
                [
                    f"change the page to {name}",
                    f"set the scene to {name}",
                    f"make it a {name} page",
                    f"switch the background to {name}",
                    f"turn it into a {name} scene",
                ]
            )


def _subject(act: Edit | StartScene | TextStep) -> LastNamed | None:
    match act:
        case StartScene(scene) if act.order:
            thing = thing_of(scene.cells[act.order[-1]])
            return LastNamed(thing, act.order[-1]) if thing and len(scene.find(thing)) == 1 else None
        case Add(identity, cell):
            return LastNamed(color_and_thing(identity)[1], cell)
        case Replace(_, identity):
            return LastNamed(color_and_thing(identity)[1])
        case Move(thing, cell):
            return LastNamed(thing, cell)
        case Recolor(thing, _):
            return LastNamed(thing)
        case _:
            return None


def phrases_of(rng: Random, acts: list[Edit | StartScene | TextStep]) -> tuple[str, ...]:
    """Return a phrase for each step, in order."""
    phrases: list[str] = []
    last: LastNamed | None = None
    for act in acts:
        phrases.append(_phrase(rng, act, last))
        last = _subject(act)
    return tuple(phrases)


def request_text(rng: Random, phrases: tuple[str, ...], captions: bool, continues: bool) -> str:
    """Join the phrases of a story into a request."""
    note = rng.choice(
        ["Write a caption for every picture.", "With captions.", "Add a line of text to each step."]
    )
    opener = rng.choice(
        ["Continue this picture.", "Go on from this page.", "Take this page.", ""]
        if continues
        else ["Tell a story.", "Make a picture book.", "Please illustrate this.", "", ""]
    )
    style = rng.choice(["prose", "prose", "list", "commas"])
    if style == "list":
        body = " ".join(f"{number}. {_sentence(phrase)}" for number, phrase in enumerate(phrases, 1))
    elif style == "commas":
        joins = [rng.choice([", then ", "; then ", ", and then ", "; after that "]) for _ in phrases[1:]]
        body = _sentence("".join(part for pair in zip(["", *joins], phrases, strict=True) for part in pair))
    else:
        leads = ["", *[rng.choice(["Then ", "Next, ", "After that, ", "Now ", ""]) for _ in phrases[1:]]]
        if len(phrases) > 1 and rng.random() < 0.4:
            leads[0], leads[-1] = "First, ", "Finally, "
        body = " ".join(
            _sentence(lead + phrase if lead else phrase) for lead, phrase in zip(leads, phrases, strict=True)
        )
    parts = [opener, body, note] if rng.random() < 0.5 else [opener, note, body]
    return " ".join(part for part in parts if part and (part != note or captions))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."

"""Requests for stories in the tiny world in plain English, each with its plan.

A story is created first (scenes and applicable edits) and then phrased; the plan is its canonical form.
There are several phrases per edit, numbers for equal objects, and relative positions. Nothing is said that
the plan does not need, and all phrasings of a story have the same plan. A digest of the text assigns each
request to a split, so requests for evaluation were never trained on, for all seeds. All lengths are equally
frequent in both splits.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Literal

from ....backend.core.types import Plan, Step
from ....tinyworld.scene import (
    BACKDROPS,
    CELLS,
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
    name_of,
    thing_of,
)
from ....tinyworld.wording import edit_text
from .scenes import GROUPS, random_edit, random_scene, random_start

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


_PHRASES = {
    "start": (
        "draw a {page} page with {things}",
        "start with a {page} page that has {things}",
        "a {page} scene with {things}",
        "show {things} on a {page} page",
        "begin on a {page} page: {things}",
    ),
    "add": (
        *("add {new} {place}", "put {new} {place}", "draw {new} {place}"),
        *("{new} appears {place}", "{place} comes {new}", "place {new} {place}"),
    ),
    "remove": ("remove {it}", "take {it} away", "erase {it}", "{it} disappears", "get rid of {it}"),
    "recolor": (
        *("make {it} {color}", "paint {it} {color}", "{it} turns {color}", "{it} becomes {color}"),
        "change the colour of {it} to {color}",
    ),
    "move": ("move {it} {place}", "{it} goes {place}", "send {it} {place}", "{it} travels {place}"),
    "replace": (
        *("replace {it} with {new}", "swap {it} for {new}", "{it} becomes {new}", "turn {it} into {new}"),
    ),
    "backdrop": (
        *("change the page to {page}", "set the scene to {page}", "make it a {page} page"),
        *("switch the background to {page}", "turn it into a {page} scene"),
    ),
    "words": ("write only the words: {text}", "show just the text: {text}", "only say: {text}"),
}
"""Phrases of each kind of step, in lower case, without a full stop."""


def _phrase(rng: Random, act: Edit | StartScene | TextStep, last: LastNamed | None) -> str:
    """Phrase one step."""
    kind, words = _words(rng, act, last)
    return rng.choice(_PHRASES[kind]).format(**words)


def _words(
    rng: Random, act: Edit | StartScene | TextStep, last: LastNamed | None
) -> tuple[str, dict[str, str]]:
    """Return the kind of a step and the words of its phrase."""
    match act:
        case TextStep(text):
            return "words", {"text": text.rstrip(".")}
        case StartScene(scene):
            return "start", {"things": _things(rng, act), "page": BACKDROPS[scene.backdrop]}
        case Add(identity, cell):
            return "add", {"new": f"a {name_of(identity)}", "place": _place(rng, cell, last)}
        case Remove(thing):
            return "remove", {"it": _it(rng, thing, last)}
        case Recolor(thing, color):
            return "recolor", {"it": _it(rng, thing, last), "color": color}
        case Move(thing, cell):
            return "move", {"it": _it(rng, thing, last), "place": rng.choice(_TARGETS[CELLS[cell]])}
        case Replace(thing, identity):
            return "replace", {"it": _it(rng, thing, last), "new": f"a {name_of(identity)}"}
        case ChangeBackdrop(backdrop):
            return "backdrop", {"page": BACKDROPS[backdrop]}


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


MAX_STORY_STEPS = 6
Split = Literal["train", "evaluate"]

_OPENING_WORDS = ["Once upon a time.", "Long ago.", "Here we go."]
_CLOSING_WORDS = ["The end.", "Good night.", "To be continued."]


@dataclass(frozen=True)
class TinyStory:
    """A request with its plan.

    Attributes:
        text: The request.
        plan: The plan.
        before: Scene of the input image; `None` if there is none.
        pages: Correct scene after each step with an image.
        phrases: Phrase for each step of the plan; empty for rephrased stories.
    """

    text: str
    plan: Plan
    before: Scene | None
    pages: tuple[Scene, ...]
    phrases: tuple[str, ...] = ()

    @property
    def split(self) -> Split:
        """Split that the text belongs to."""
        digest = hashlib.blake2b(self.text.lower().encode(), digest_size=4).digest()
        return "evaluate" if digest[0] < 26 else "train"


def random_story(rng: Random, split: Split, steps: int | None = None) -> TinyStory:
    """Return a story of the split with 1 to 6 steps, or exactly `steps`, none of them text-only."""
    while True:
        count = steps or rng.randint(1, MAX_STORY_STEPS)
        story = _story(rng, count, words=steps is None)
        if story.split == split:
            return story


def _story(rng: Random, count: int, words: bool) -> TinyStory:
    opening = rng.choice(_OPENING_WORDS) if words and count > 2 and rng.random() < 0.12 else None
    closing = rng.choice(_CLOSING_WORDS) if words and count > 1 and rng.random() < 0.2 else None
    drawn = count - (opening is not None) - (closing is not None)
    before = random_scene(rng) if rng.random() < 0.3 else None
    acts: list[Edit | StartScene | TextStep] = []
    pages: list[Scene] = []
    page = before
    for _ in range(drawn):
        act = random_start(rng) if page is None else random_edit(rng, page)
        page = act.apply(page)  # pyright: ignore[reportArgumentType]
        acts.append(act)
        pages.append(page)
    acts = [*([TextStep(opening)] if opening else []), *acts, *([TextStep(closing)] if closing else [])]
    captions = rng.random() < 0.3
    phrases = phrases_of(rng, acts)
    text = request_text(rng, phrases, captions, before is not None)
    numbered = enumerate(acts, 1)
    plan = Plan(
        steps=tuple(_step(number, act, captions) for number, act in numbered),
        reasoning=_reasoning(before is not None, len(acts), captions),
    )
    return TinyStory(text, plan, before, tuple(pages), phrases)


def _reasoning(continues: bool, count: int, captions: bool) -> str:
    page = "go on from the page" if continues else "new page"
    return f"{page}, {count} step{'s' if count > 1 else ''}, {'with' if captions else 'no'} captions"


def _step(number: int, act: Edit | StartScene | TextStep, captions: bool) -> Step:
    if isinstance(act, TextStep):
        return Step(number=number, name="words", auxiliary_text=act.text)
    name, instruction, caption = _labels(act)
    return Step(
        number=number,
        name=name,
        instruction=instruction,
        prompt=edit_text(act),
        auxiliary_text=caption if captions else None,
    )


def _labels(act: Edit | StartScene) -> tuple[str, str, str]:
    """Return name, instruction and caption of a step."""
    match act:
        case StartScene(scene):
            backdrop = BACKDROPS[scene.backdrop]
            return "first page", f"Draw a {backdrop} page.", f"Here is a {backdrop} page."
        case Add(identity, _):
            _, thing = color_and_thing(identity)
            return f"add {thing}", f"Add a {name_of(identity)}.", f"A {name_of(identity)} appears."
        case Remove(thing):
            return f"remove {thing}", f"Remove the {thing}.", f"The {thing} is gone."
        case Recolor(thing, color):
            return f"paint {thing}", f"Make the {thing} {color}.", f"Now the {thing} is {color}."
        case Move(thing, cell):
            return f"move {thing}", f"Move the {thing}.", f"The {thing} goes to the {CELLS[cell]}."
        case Replace(thing, identity):
            new = name_of(identity)
            return (
                f"replace {thing}",
                f"Replace the {thing} with a {new}.",
                f"The {thing} turns into a {new}.",
            )
        case ChangeBackdrop(backdrop):
            name = BACKDROPS[backdrop]
            return f"change to {name}", f"Change the page to {name}.", f"Now it is a {name} page."

"""Tiny-world stories in unfamiliar phrasing, and longer ones, to test a planner beyond its fine-tuning.

A story is created as usual (world/requests.py) and rephrased from its plan, so plan and images are the usual
ones. There are two sets of phrases: "other" may be used for reinforcement learning, "unseen" only for
evaluation.
"""

from __future__ import annotations

from random import Random
from typing import Literal

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
    name_of,
)
from ...runtime.wording import read_prompt
from ..world.requests import Split, TinyStory, random_story

Wording = Literal["usual", "other", "unseen"]

_PHRASES: dict[Wording, dict[str, tuple[str, ...]]] = {
    "other": {
        "start": (
            "the page is {page} at first, and on it there is {things}",
            "we open on {page} with {things}",
        ),
        "add": (
            "a {new} shows up at the {cell}",
            "bring in a {new} at the {cell}",
            "at the {cell} there is a {new} now",
        ),
        "remove": ("the {thing} has to go", "wipe out the {thing}", "the {thing} leaves the page"),
        "recolor": ("the {thing} is {color} now", "colour the {thing} {color}"),
        "move": ("shift the {thing} to the {cell}", "the {thing} walks to the {cell}"),
        "replace": ("trade the {thing} for a {new}", "in place of the {thing} comes a {new}"),
        "backdrop": ("the whole page is {page} from here on", "we change over to {page}"),
        "lead": ("Later, ", "Soon, ", "And now, ", ""),
        "note": ("Put a line under each one.", "Every picture has a caption."),
    },
    "unseen": {
        "start": (
            "imagine {page} as the page, holding {things}",
            "the first one shows {things} and is {page}",
        ),
        "add": ("there should also be a {new} at the {cell}", "let a {new} come in at the {cell}"),
        "remove": ("the {thing} is no more", "we lose the {thing}"),
        "recolor": ("let the {thing} be {color}", "the {thing} is to be {color}"),
        "move": ("bring the {thing} over to the {cell}", "the {thing} is at the {cell} next"),
        "replace": ("what was the {thing} is a {new} now", "put a {new} where the {thing} was"),
        "backdrop": ("it is all {page} now", "let the page be {page}"),
        "lead": ("A little later ", "In the next one ", "Here ", ""),
        "note": ("Say a few words with each one.", "Caption them all."),
    },
}


def reworded_story(rng: Random, split: Split, steps: int, wording: Wording) -> TinyStory:
    """Return a story of `steps` steps with images, in the given split and phrasing."""
    while True:
        story = random_story(rng, split, steps)
        if wording == "usual":
            return story
        told = TinyStory(_reworded_text(rng, story, wording), story.plan, story.before, story.pages)
        if told.split == split:
            return told


def _reworded_text(rng: Random, story: TinyStory, wording: Wording) -> str:
    phrases = _PHRASES[wording]
    sentences = []
    for step in story.plan.steps:
        found = read_prompt(step.prompt or "")
        assert found is not None
        kind, words = _words(found[0])
        phrase = rng.choice(phrases[kind]).format(**words)
        lead = rng.choice(phrases["lead"]) if sentences else ""
        sentences.append(_sentence(lead + phrase))
    if any(step.auxiliary_text for step in story.plan.steps):
        sentences.append(rng.choice(phrases["note"]))
    return " ".join(sentences)


def _words(act: Edit | StartScene) -> tuple[str, dict[str, str]]:
    """Return the kind of a step and the values for its phrases."""
    match act:
        case StartScene(scene):
            things = [f"a {name_of(scene.cells[cell])} at the {CELLS[cell]}" for cell in act.order]
            return "start", {"page": BACKDROPS[scene.backdrop], "things": " and ".join(things)}
        case Add(identity, cell):
            return "add", {"new": name_of(identity), "cell": CELLS[cell]}
        case Remove(thing):
            return "remove", {"thing": thing}
        case Recolor(thing, color):
            return "recolor", {"thing": thing, "color": color}
        case Move(thing, cell):
            return "move", {"thing": thing, "cell": CELLS[cell]}
        case Replace(thing, identity):
            return "replace", {"thing": thing, "new": name_of(identity)}
        case ChangeBackdrop(backdrop):
            return "backdrop", {"page": BACKDROPS[backdrop]}


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."

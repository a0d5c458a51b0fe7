"""Requests for stories in the tiny world in plain English, each with its plan.

A story is created first (scenes and applicable edits) and then phrased (phrases.py); the plan is its
canonical form. A digest of the text assigns each request to a split, so requests for evaluation were never
trained on, for all seeds. All lengths are equally frequent in both splits.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Literal

from ....backend.types import Plan, Step
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
    Scene,
    StartScene,
    color_and_thing,
    name_of,
)
from ...runtime.wording import edit_text
from .phrases import TextStep, phrases_of, request_text
from .scenes import random_edit, random_scene, random_start

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

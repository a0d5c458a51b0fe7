"""Makes plans without faults from the stories, and plants one fault in each.

For each story and rule there is a pair: a plan with the fault, and its twin without, which has the same
request. Every third story is held out, and its faults have phrasings of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from interleave_thinker.backend.types import Plan, Step

from . import phrasings
from .casts import planted_casts
from .phrasings import Phrasings
from .planted import Planted

STORIES = Path(__file__).parent / "stories.txt"
Texts = list[tuple[str, str]]
"""Prompt and caption of each step."""


@dataclass(frozen=True)
class Story:
    """A plan without faults, with its request."""

    language: str
    request: str
    steps: tuple[tuple[str, str], ...]


def read_stories() -> list[Story]:
    """Return the stories of the data file, in its order."""
    stories = []
    for block in STORIES.read_text(encoding="utf-8").split("\n\n")[1:]:
        head, *lines = block.strip("\n").split("\n")
        language, _, request = head.partition(": ")
        pairs = [line.strip().partition(" |") for line in lines]
        stories.append(Story(language, request, tuple((one[0], one[2].strip()) for one in pairs)))
    return stories


@dataclass(frozen=True)
class _Draft:
    """What a fault is planted into: a story, and the phrasings that may be used in it."""

    story: Story
    held_out: bool
    turn: int

    @property
    def steps(self) -> Texts:
        return list(self.story.steps)

    @property
    def place(self) -> int:
        """Index of the step with the fault: not the first one."""
        return 1 + self.turn % (len(self.story.steps) - 1)

    def phrasing(self, table: dict[str, Phrasings]) -> str:
        found = table[self.story.language]
        mine = found.held_out if self.held_out else found.tuned
        return mine[self.turn % len(mine)]

    def changed(self, place: int, prompt: str) -> Texts:
        steps = self.steps
        steps[place] = (prompt, steps[place][1])
        return steps


Pair = tuple[str, Texts, Texts]
"""End of the request, steps with the fault, and steps without."""


def _step_count(draft: _Draft) -> Pair:
    steps = draft.steps
    extra = [*steps, (f"{steps[-1][0]}, {'远景' if draft.story.language == 'zh' else 'panorama'}", "")]
    joined = [*steps[:-2], (f"{steps[-2][0]}. {steps[-1][0]}", steps[-1][1])]
    return "", extra if draft.held_out else joined, steps


def _no_images(draft: _Draft) -> Pair:
    return "", [("", text or prompt) for prompt, text in draft.steps], draft.steps


def _meta_words(draft: _Draft) -> Pair:
    prompt = draft.steps[draft.place][0]
    return "", draft.changed(draft.place, draft.phrasing(phrasings.META).format(p=prompt)), draft.steps


def _no_subject(draft: _Draft) -> Pair:
    return "", draft.changed(draft.place, draft.phrasing(phrasings.SUBJECT)), draft.steps


def _missing_text(draft: _Draft) -> Pair:
    request, words = draft.phrasing(phrasings.TEXTS).split("\n")
    good = draft.changed(-1, draft.steps[-1][0] + words)
    if draft.turn % 2:
        return request, draft.steps, good
    wrong = re.sub(r"(['\"“«„])(.)", r"\1X\2", words, count=1)
    return request, draft.changed(-1, draft.steps[-1][0] + wrong), good


def _missing_goal(draft: _Draft) -> Pair:
    request, prompt, instead = draft.phrasing(phrasings.GOALS).split("\n")
    return request, [*draft.steps, (instead, "")], [*draft.steps, (prompt, "")]


def _identical_prompts(draft: _Draft) -> Pair:
    prompt = draft.steps[draft.place - 1][0]
    copied = f"{prompt.upper()}。" if draft.held_out else prompt
    return "", draft.changed(draft.place, copied), draft.steps


def _unfinished(draft: _Draft) -> Pair:
    phrase = draft.phrasing(phrasings.UNFINISHED)
    if phrase.startswith("caption:"):
        steps = draft.steps
        steps[-1] = (steps[-1][0], phrase.removeprefix("caption:"))
        return "", steps, draft.steps
    return "", draft.changed(-1, phrase.format(p=draft.steps[-1][0])), draft.steps


def _unasked_words(draft: _Draft) -> Pair:
    prompt = draft.steps[draft.place][0]
    return "", draft.changed(draft.place, draft.phrasing(phrasings.UNASKED).format(p=prompt)), draft.steps


def _head_count(draft: _Draft) -> Pair:
    prompt = draft.steps[draft.place][0]
    bad, listed = draft.phrasing(phrasings.HEADS).split("\n")
    head = re.split(r"[:：,，]", bad)[0]
    separator = bad[len(head)]
    space = "" if draft.story.language == "zh" else " "
    comma = f"，{space}" if draft.story.language == "zh" else f",{space}"
    good = f"{head}{separator}{space}{listed}"
    return (
        "",
        draft.changed(draft.place, f"{prompt}{comma}{bad}"),
        draft.changed(draft.place, f"{prompt}{comma}{good}"),
    )


FAULTS: dict[str, Callable[[_Draft], Pair]] = {
    "step-count": _step_count,
    "no-images": _no_images,
    "meta-words": _meta_words,
    "no-subject": _no_subject,
    "missing-text": _missing_text,
    "missing-goal": _missing_goal,
    "identical-prompts": _identical_prompts,
    "unfinished": _unfinished,
    "unasked-words": _unasked_words,
    "head-count": _head_count,
}


def planted_faults() -> Iterator[Planted]:
    """Yield a pair of plans for each story and rule, then those with a cast."""
    for number, story in enumerate(read_stories()):
        held_out = number % 3 == 2
        for index, (rule, plant) in enumerate(FAULTS.items()):
            request, faulty, good = plant(_Draft(story, held_out, number // 3 + index))
            text = story.request.format(n=len(good)) + request
            yield Planted(rule, held_out, story.language, text, _plan(faulty), _plan(good))
    yield from planted_casts()


def _plan(steps: Texts) -> Plan:
    return Plan(
        steps=tuple(
            Step(number=number, prompt=prompt or None, auxiliary_text=text or None)
            for number, (prompt, text) in enumerate(steps, 1)
        )
    )

"""Parallel stories give the same results as sequential ones, in batches that do not depend on chance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

import pytest

from interleave_thinker import AnswerError, CriticLike, GeneratorError, Picture, Verdict
from interleave_thinker.research.tinyworld.ablation.measures import oracle_verdicts
from interleave_thinker.research.tinyworld.stories import (
    BatchedTasks,
    Judging,
    SharedCritic,
    SharedGenerator,
    lost,
    run_story,
)
from interleave_thinker.research.tinyworld.world.requests import random_story
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.scene import EMPTY
from interleave_thinker.tinyworld.scorer import read_image
from interleave_thinker.tinyworld.wording import read_prompt

STORIES = [random_story(Random(number), "evaluate") for number in range(12)]


class Draughtsman:
    """Forgets a thing with every third seed, if no clause names a cell, and records the batch sizes."""

    identity = "draughtsman"

    def __init__(self) -> None:
        self.at_once: list[int] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        found = read_prompt(prompt)
        assert found is not None
        before = read_image(source).scene if source else None
        edit, clauses = found
        page = edit.apply(before)  # pyright: ignore[reportArgumentType]
        forgets = seed % 3 == 0 and not clauses and page.occupied
        return draw(page.put(page.occupied[0], EMPTY) if forgets else page)

    def draw_all(self, wanted: Sequence[tuple[str, Picture | None, int]]) -> list[Picture]:
        self.at_once.append(len(wanted))
        return [self.draw(*one) for one in wanted]


class Oracle(CriticLike):
    identity = "oracle"
    prompt_set_digest = ""

    def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
        return oracle_verdicts([(before, after, original, used)])[0]


def side_by_side(artist: Draughtsman, at_once: int) -> list[bool]:
    together = BatchedTasks({"draw": artist.draw_all, "judge": oracle_verdicts}, at_once)
    generator, critic = SharedGenerator(together, "draughtsman"), SharedCritic(together, "oracle")
    tasks = [
        partial(run_story, number, story, story.plan, generator, critic, (3,))
        for number, story in enumerate(STORIES)
    ]
    return [step for one in together.run(tasks) for step in one[3].steps]


def test_batched_stories_equal_single_ones() -> None:
    artist = Draughtsman()
    alone = [
        step
        for number, story in enumerate(STORIES)
        for step in run_story(number, story, story.plan, artist, Oracle(), (3,))[3].steps
    ]
    assert side_by_side(artist, 5) == alone and sum(alone) > 0
    assert max(artist.at_once) == 5, "the images of five stories are generated in one batch"


def test_unreadable_verdicts_fail_only_stories_that_are_judged() -> None:
    class Mute(CriticLike):
        identity, prompt_set_digest = "mute", ""

        def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
            raise AnswerError("nothing readable")

    story = next(story for story in STORIES if len(story.pages) > 1)
    outcomes = run_story(0, story, story.plan, Draughtsman(), Mute(), (1, 3))
    assert outcomes[1].draws == len(story.pages), "with one attempt no critic is called"
    assert outcomes[3] == lost(story)


def test_errors_are_raised_in_the_asking_task() -> None:
    def judge(pages: Sequence[Judging]) -> list[Verdict]:
        raise GeneratorError("no judge today")

    together = BatchedTasks({"judge": judge, "plan": lambda asked: [AnswerError("unreadable")] * len(asked)})
    with pytest.raises(GeneratorError, match="no judge today"):
        together.run([lambda: together.ask("judge", None)] * 3)

    def asks() -> str:
        with pytest.raises(AnswerError, match="unreadable"):
            together.ask("plan", None)
        return "continued"

    assert together.run([asks] * 2) == ["continued"] * 2, "and another run starts again"

    def breaks() -> None:
        raise KeyError("a task's own")

    with pytest.raises(KeyError):
        together.run([breaks, asks])

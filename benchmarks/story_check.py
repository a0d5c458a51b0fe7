"""Measures in the tiny world what a whole-story check is worth, by how often the checker is wrong.

    OMP_NUM_THREADS=1 python -m benchmarks.story_check
    OMP_NUM_THREADS=1 python -m benchmarks.story_check --forgetful --rivals 8

Stories of six steps with exact plans run through the regular loop with the shipped generator and critic. The
checker is scripted: it knows what every image should show, overlooks a wrong image with probability MISS, and
reports a right one with probability ALARM. About a wrong image it states the right content of its wrong cells
(at most two); in a false alarm it states a wrong color, which a step must not follow. It decides once per
story, step and image. The tiny critic cannot read a sheet of images, so this measures what follows from a
check and not how well a model checks.

Arms: without a check; MISS/ALARM 0/0, .3/.05, .5/.1 and .7/.2, with 1, 2 and 3 steps that may be reopened;
and as the rival, without a check, more attempts per step. All arms have the same stories and seeds, so
differences are paired. A draw is a generated image, also of steps that were generated again.

With --forgetful, things that a prompt does not name lose their color or place (tinyworld/lab/runs/
forgetful.py), as in image models. The checker's words prevent that.

Expected before the first run, which had three attempts per step: a perfect checker with one reopened step
repairs most wrong stories, since few have more than one; a checker that overlooks half still gains, since a
false alarm costs images and, with the critic's verdict, seldom a right image; at .7/.2 the gain is within the
interval. More attempts gain little, because wrong images that remain are those that the critic accepted. The
first run refuted the last point: with three attempts many wrong images are rejected ones, and eight attempts
gained more than any checker that is sometimes wrong. So the default is five attempts, the loop's own, and the
rivals have eight and twelve. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from interleave_thinker.backend.generators import Generator
from interleave_thinker.backend.journal.store import InMemoryStore
from interleave_thinker.backend.loop.events import Finished
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.pipeline.story_check.review import StoryReview
from interleave_thinker.backend.types import Request, RunSettings, StepResult, StoryFinding, Verdict
from interleave_thinker.tinyworld.lab.runs.batched_tasks import (
    Answering,
    BatchedTasks,
    SharedCritic,
    SharedGenerator,
)
from interleave_thinker.tinyworld.lab.runs.forgetful import ForgetfulGenerator
from interleave_thinker.tinyworld.lab.runs.stories import request_of
from interleave_thinker.tinyworld.lab.world.requests import TinyStory, random_story
from interleave_thinker.tinyworld.runtime.reading import read_image
from interleave_thinker.tinyworld.runtime.scene import BACKDROPS, COLORS, Scene, color_and_thing, identity_of
from interleave_thinker.tinyworld.runtime.scorer import faults
from interleave_thinker.tinyworld.runtime.wording import Clause
from interleave_thinker.training.statistics.intervals import paired_difference, share

from .cast import images_of, verdicts_of

STEPS = 6
RATES = ((0.0, 0.0), (0.3, 0.05), (0.5, 0.1), (0.7, 0.2))
MOST = (1, 2, 3)
STATED = 2
"""Cells whose content the checker states."""


def wrong_cells(scene: Scene, image: Picture | None) -> list[int | None]:
    """Return what is wrong in the image of a page; `[None]` without an image."""
    return [None] if image is None else faults(scene, read_image(image))


class ScriptedChecker:
    """Knows every page of one story, and is wrong as often as it is told to be."""

    def __init__(self, story: TinyStory, miss: float, alarm: float) -> None:
        self._story, self._miss, self._alarm = story, miss, alarm
        self.identity, self.checks = f"scripted {miss} {alarm}", 0

    def check(self, request: Request, pages: Sequence[StepResult]) -> tuple[StoryFinding, ...]:
        """Return a finding for each image that looks wrong to this checker."""
        self.checks += 1
        numbers = [step.number for step in self._story.plan.steps if step.prompt]
        scenes = dict(zip(numbers, self._story.pages, strict=True))
        found = []
        for page in pages:
            assert page.image is not None, "the story check is given steps with an image"
            scene = scenes[page.step.number]
            rng = Random(f"{self._story.text}/{page.step.number}/{page.image.digest}/{self.identity}")
            wrong = wrong_cells(scene, page.image)
            stated = [clause_of(scene, cell).text() for cell in wrong[:STATED]]
            if not wrong:
                stated = [false_clause(scene, rng).text()] if rng.random() < self._alarm else []
            elif rng.random() < self._miss:
                stated = []
            if stated:
                problem = "; ".join(stated)
                found.append(StoryFinding(step=page.step.number, kind="state", problem=problem))
        return tuple(found)


def clause_of(scene: Scene, cell: int | None) -> Clause:
    """Return what a cell of a page contains; of the backdrop for `None`."""
    return Clause(cell, scene.backdrop if cell is None else scene.cells[cell])


def false_clause(scene: Scene, rng: Random) -> Clause:
    """Return a clause that gives a thing of the page another color, or the page another backdrop."""
    cells = list(scene.occupied)
    if not cells:
        return Clause(None, (scene.backdrop + 1) % len(BACKDROPS))
    cell = rng.choice(cells)
    color, thing = color_and_thing(scene.cells[cell])
    return Clause(cell, identity_of(rng.choice([one for one in COLORS if one != color]), thing))


def in_clauses(prompt: str) -> str:
    """Return a prompt with the checker's text as clauses, which the tiny world adds after a semicolon."""
    return prompt.replace(". ", "; ")


class Counted:
    """The generator and critic of one story: they write prompts as the tiny world does, and count images."""

    prompt_set_digest = ""

    def __init__(self, generator: Generator, critic: SharedCritic) -> None:
        self._generator, self._critic = generator, critic
        self.identity, self.draws = "tinyworld", 0

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image."""
        self.draws += 1
        return self._generator.draw(in_clauses(prompt), source, seed)

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Judge an image."""
        return self._critic.judge(before, after, original_prompt, in_clauses(prompt_used))


class Memo:
    """Answers each question once, for all arms: they share most of their images and verdicts."""

    def __init__(self, answer: Answering) -> None:
        self._answer = answer
        self._known: dict[tuple[object, ...], object] = {}

    def __call__(self, questions: Sequence[Any]) -> list[Any]:
        """Return the answers, in one batch for those that are new."""
        keys = [tuple(one.digest if isinstance(one, Picture) else one for one in each) for each in questions]
        new = {key: each for key, each in zip(keys, questions, strict=True) if key not in self._known}
        if new:
            self._known |= dict(zip(new, self._answer(list(new.values())), strict=True))
        return [self._known[key] for key in keys]


Outcome = tuple[bool, int, int]
"""Whether every image is right, the number of draws, and the number of checks."""


def one_story(
    number: int, story: TinyStory, models: Counted, attempts: int, rates: tuple[float, float] | None
) -> list[Outcome]:
    """Run a story without a check, or with each number of steps that may be reopened."""
    store, outcomes = InMemoryStore(), []
    checker = ScriptedChecker(story, *rates) if rates else None
    for most in MOST if rates else (0,):
        reviewer = StoryReview(checker, most) if checker else None
        settings = RunSettings(max_attempts=attempts, seed=number)
        # With the same store, a larger number continues the run with the smaller one.
        events = run(
            request_of(story), None, models, models, settings, store, plan=story.plan, reviewer=reviewer
        )
        *_, last = events
        assert isinstance(last, Finished), "a run ends with Finished"
        images = [result.image for result in last.trajectory.results if result.step.prompt]
        right = not any(wrong_cells(*one) for one in zip(story.pages, images, strict=True))
        outcomes.append((right, models.draws, checker.checks if checker else 0))
    return outcomes


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=100)
    parser.add_argument("--attempts", type=int, default=5, help="Attempts per step.")
    parser.add_argument("--rivals", type=int, nargs="*", default=[8, 12], help="Attempts without a check.")
    parser.add_argument("--forgetful", action="store_true", help="Use the generator that forgets.")
    parser.add_argument("--critic", choices=("learned", "exact"), default="learned")
    options = parser.parse_args()
    rng = Random("story check")
    stories = [random_story(rng, "evaluate", STEPS) for _ in range(options.stories)]
    answering = {"draw": Memo(images_of("learned")), "judge": Memo(verdicts_of(options.critic))}

    def outcomes(attempts: int, rates: tuple[float, float] | None) -> list[list[Outcome]]:
        together = BatchedTasks(answering)
        shared, critic = SharedGenerator(together, "tinyworld"), SharedCritic(together, "critic")
        tasks = [
            partial(one_story, number, story, Counted(drawer(shared, story), critic), attempts, rates)
            for number, story in enumerate(stories)
        ]
        return together.run(tasks)

    def drawer(shared: SharedGenerator, story: TinyStory) -> Generator:
        return ForgetfulGenerator(shared, story.text) if options.forgetful else shared

    figures: dict[str, object] = {}
    plain: list[bool] = []

    def tell(name: str, ones: Sequence[Outcome]) -> None:
        right = [one[0] for one in ones]
        plain[:] = plain or right
        draws, checks = (sum(one[at] for one in ones) / len(ones) for at in (1, 2))
        change = paired_difference(right, plain)
        shown = (
            f"stories {share(right)}, change {change}, {draws:.2f} draws and {checks:.2f} checks per story"
        )
        print(f"{name:28s} {shown} ({time.monotonic() - began:.0f} s)", flush=True)
        figures[name] = {
            "stories": share(right).model_dump(),
            "change": change.model_dump(),
            "draws": draws,
            "checks": checks,
        }

    began = time.monotonic()
    tell("none", [one[0] for one in outcomes(options.attempts, None)])
    for rates in RATES:
        told = outcomes(options.attempts, rates)
        for at, most in enumerate(MOST):
            tell(f"miss {rates[0]:g} alarm {rates[1]:g} most {most}", [one[at] for one in told])
    for attempts in options.rivals:
        tell(f"none, {attempts} attempts", [one[0] for one in outcomes(attempts, None)])
    print(json.dumps({**vars(options), "arms": figures}))


if __name__ == "__main__":
    main()

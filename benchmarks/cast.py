"""Measures in the tiny world what a cast does for a generator that forgets (tinyworld/lab/runs/forgetful.py).

    OMP_NUM_THREADS=1 python -m benchmarks.cast --seeds 1 2 3 --generator exact
    OMP_NUM_THREADS=1 python -m benchmarks.cast --seeds 1 2 3 --arms traits facts remembers
    OMP_NUM_THREADS=1 python -m benchmarks.cast --stories 60 --critic learned --arms facts judged

Stories of six steps with exact plans run through the regular loop with the shipped generator, or a renderer
that makes no other mistakes, behind the forgetful wrapper, and with an exact critic or the shipped one. The
things of a story are its cast. All arms have the same stories and seeds, so differences are paired. Arms:

- remembers: without the wrapper and without a cast, the upper bound.
- none: without a cast.
- names: the cast has traits (colors that never change), and the names in a prompt decide who is present.
- traits: as names, but each step lists the things on its page.
- facts: as traits, and each step states the color (if it changes in the story) and place of its things.
- stale: as traits, but a color that changes later is a trait too.
- everyone: as facts, but every step lists the whole cast.
- wrong: as facts, but every tenth trait or fact has another color or place.
- careless: as traits, but seven of ten traits have another color: the share of a 1.5B planner's members with
  a trait that is not true in all images was 19 of 27 (docs/how-to/runs/cast.md).
- judged: as facts, and the critic is given traits and facts as clauses of both prompts.

The tiny generator accepts no reference images, so only words are measured. Expected before the first run:
names changes little, since a terse prompt names only what it changes; traits removes the color half of the
loss and facts nearly all; stale and everyone are worse than none or traits; with five attempts the critic
repairs most of what none loses, so the cast saves images; judged is not better, since the critic compares
with the source.

A cast that a model writes costs one more reply per story. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from interleave_thinker.backend.cast import MAX_FACTS, CastMember
from interleave_thinker.backend.generators.protocol import Generator
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Verdict
from interleave_thinker.tinyworld.lab.data.critic_rows import MAX_CLAUSES, drawn_of, verdict_of
from interleave_thinker.tinyworld.lab.runs.batched_agents import BatchedAgent
from interleave_thinker.tinyworld.lab.runs.batched_tasks import (
    BatchedTasks,
    SharedCritic,
    SharedGenerator,
    drawing,
)
from interleave_thinker.tinyworld.lab.runs.forgetful import ForgetfulGenerator
from interleave_thinker.tinyworld.lab.runs.stories import StoryOutcome, StoryRuns, measure_stories, run_story
from interleave_thinker.tinyworld.lab.world.requests import TinyStory, random_story
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.drawing import draw as draw_scene
from interleave_thinker.tinyworld.runtime.generator import TinyWorldGenerator, load_pipeline
from interleave_thinker.tinyworld.runtime.scene import CELLS, COLORS, Scene, color_and_thing
from interleave_thinker.tinyworld.runtime.scorer import expected_scene
from interleave_thinker.tinyworld.runtime.wording import Clause, clauses_of, prompt_text, read_prompt
from interleave_thinker.training.statistics.intervals import paired_difference

COUNTS = (1, 3, 5)
STEPS = 6
VERDICT_TOKENS = 224
"""Token limit of a verdict, as in the ablation."""
ARMS = ("remembers", "none", "names", "traits", "facts", "stale", "everyone", "wrong", "careless", "judged")
DEFAULT = ARMS[:-1]
WRONG = {"wrong": 1, "careless": 7}
"""How many of ten traits and facts are wrong."""
WITH_FACTS = ("facts", "everyone", "wrong", "judged")


def things_on(page: Scene) -> dict[str, tuple[str, int]]:
    """Return color and cell of each thing on a page."""
    found = {}
    for cell in page.occupied:
        color, thing = color_and_thing(page.cells[cell])
        found[thing] = (color, cell)
    return found


def with_cast(story: TinyStory, arm: str) -> Plan:
    """Return the plan of a story with the cast of an arm."""
    if arm in ("remembers", "none"):
        return story.plan
    rng = Random(f"wrong/{story.text}")
    pages = [*([story.before] if story.before else []), *story.pages]
    colors: dict[str, list[str]] = {}
    for page in pages:
        for thing, (color, _) in things_on(page).items():
            colors.setdefault(thing, []).append(color)
    fixed = {thing: seen[0] for thing, seen in colors.items() if arm == "stale" or len(set(seen)) == 1}

    def told(given: str, others: Sequence[str]) -> str:
        wrong = arm in WRONG and rng.randrange(10) < WRONG[arm]
        return rng.choice([one for one in others if one != given]) if wrong else given

    cast = tuple(
        CastMember(name=thing, kind="prop", traits=(told(fixed[thing], COLORS),) if thing in fixed else ())
        for thing in colors
    )
    drawn = iter(story.pages)
    steps = []
    for step in story.plan.steps:
        update: dict[str, object] = {}
        if step.prompt:
            on_page = things_on(next(drawn))
            if arm != "names":
                update["cast"] = tuple(colors if arm == "everyone" else on_page)
            if arm in WITH_FACTS:
                facts = [
                    f"the {thing} is {told(color, COLORS)}"
                    for thing, (color, _) in on_page.items()
                    if thing not in fixed
                ]
                facts += [
                    f"the {thing} is at the {told(CELLS[cell], CELLS)}"
                    for thing, (_, cell) in on_page.items()
                ]
                update["facts"] = tuple(facts[:MAX_FACTS])
        steps.append(step.model_copy(update=update))
    return story.plan.model_copy(update={"cast": cast, "steps": tuple(steps)})


class ToldCritic:
    """A critic that is given the cast as clauses of both prompts, as many as the tiny world allows."""

    prompt_set_digest = ""

    def __init__(self, inner: SharedCritic, story: TinyStory) -> None:
        self.inner, self.identity = inner, f"{inner.identity} told"
        prompts = [step.prompt for step in story.plan.steps if step.prompt]
        self._pages = dict(zip(prompts, story.pages, strict=True))

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Judge an image with the clauses of the page in both prompts."""
        page = self._pages[original_prompt]
        clauses = clauses_of(page, page.occupied)
        return self.inner.judge(
            before, after, *(_told(one, clauses) for one in (original_prompt, prompt_used))
        )


def _told(prompt: str, clauses: Sequence[Clause]) -> str:
    found = read_prompt(prompt)
    if found is None:
        return prompt
    edit, own = found
    named = {clause.cell for clause in own}
    return prompt_text(edit, [*own, *(one for one in clauses if one.cell not in named)][:MAX_CLAUSES])


def exact(requests: Sequence[tuple[Picture | None, Picture, str, str]]) -> list[Verdict]:
    """Judge images as the oracle does: exact verdicts, and one more clause in every refined prompt."""
    drawn = [drawn_of(*one) for one in requests]
    return [verdict_of(one) if one is not None else Verdict(success=False) for one in drawn]


def verdicts_of(critic: str) -> Callable[[Sequence[Any]], Sequence[Verdict]]:
    """Return what judges images in batches: the shipped critic ("learned"), or the oracle."""
    if critic == "learned":
        return BatchedAgent(checkpoint("critic"), VERDICT_TOKENS, VERDICT_TOKENS).judge
    return exact


def exactly(requests: Sequence[tuple[str, Picture | None, int]]) -> list[Picture]:
    """Return exactly what prompts make of their sources."""
    return [draw_scene(expected_scene(source, prompt)) for prompt, source, _ in requests]


def images_of(generator: str) -> Callable[[Sequence[Any]], Sequence[Picture]]:
    """Return what generates images in batches: the shipped generator ("learned"), or exact ones."""
    if generator == "learned":
        return drawing(TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld"))
    return exactly


def outcomes_of(
    stories: Sequence[TinyStory],
    arm: str,
    judging: str,
    made_by: str = "learned",
    through: Callable[[Generator], Generator] | None = None,
) -> tuple[dict[int, list[StoryOutcome]], int]:
    """Run all stories of an arm.

    Args:
        stories: The stories.
        arm: The arm.
        judging: The critic: exact, learned or none.
        made_by: The generator: exact or learned.
        through: Wraps the generator of each story.

    Returns:
        The outcomes by number of attempts, and the critic's replies.
    """
    judged_by = verdicts_of(judging)
    calls = 0

    def judge(requests: Sequence[tuple[Picture | None, Picture, str, str]]) -> Sequence[Verdict]:
        nonlocal calls
        calls += len(requests)
        return judged_by(requests)

    together = BatchedTasks({"draw": images_of(made_by), "judge": judge})
    shared, critic = SharedGenerator(together, "tinyworld"), SharedCritic(together, "critic")
    runs = StoryRuns(COUNTS if judging != "none" else (1,), unreadable="lost")
    tasks: list[Callable[[], dict[int, StoryOutcome]]] = []
    for number, story in enumerate(stories):
        drawer: Generator = shared if arm == "remembers" else ForgetfulGenerator(shared, story.text)
        drawer = through(drawer) if through else drawer
        judge_of = ToldCritic(critic, story) if arm == "judged" else critic
        plan = with_cast(story, arm)
        tasks.append(
            partial(run_story, number, story, plan, drawer, None if judging == "none" else judge_of, runs)
        )
    told = together.run(tasks)
    return {attempts: [one[attempts] for one in told] for attempts in runs.max_attempts}, calls


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="Seeds whose stories are pooled.")
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=[*DEFAULT], help="In addition to none.")
    parser.add_argument("--generator", choices=("exact", "learned"), default="learned")
    parser.add_argument("--critic", choices=("exact", "learned", "none"), default="exact")
    options = parser.parse_args()
    sets = []
    for seed in options.seeds:
        rng = Random(f"cast/{seed}")
        sets.append([random_story(rng, "evaluate", STEPS) for _ in range(options.stories)])
    count = options.stories * len(sets)
    figures: dict[str, dict[int, dict[str, object]]] = {}
    plain: dict[int, list[StoryOutcome]] = {}
    for arm in dict.fromkeys(["none", *options.arms]):
        runs = [outcomes_of(stories, arm, options.critic, options.generator) for stories in sets]
        told = {attempts: [one for some, _ in runs for one in some[attempts]] for attempts in runs[0][0]}
        calls = sum(made for _, made in runs)
        plain = plain or told
        measure = measure_stories(told)
        figures[arm] = {}
        for attempts, ones in told.items():
            change = paired_difference([one.right for one in ones], [one.right for one in plain[attempts]])
            figures[arm][attempts] = {
                "stories": measure.stories[attempts].model_dump(),
                "steps": measure.steps[attempts].model_dump(),
                "images": measure.draws[attempts],
                "change": change.model_dump(),
            }
            print(
                f"{arm:9s} {attempts} attempts: stories {measure.stories[attempts]}, "
                f"steps {measure.steps[attempts]}, {measure.draws[attempts]:.2f} images per step, "
                f"change of stories {change}",
                flush=True,
            )
        print(f"{arm:9s} {calls / count:.1f} replies of the critic per story, all runs together")
    print(json.dumps({"stories": count, "seeds": options.seeds, "arms": figures}))


if __name__ == "__main__":
    main()

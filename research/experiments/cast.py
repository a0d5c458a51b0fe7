"""Measures in the tiny world what a cast does for a generator that forgets.

    OMP_NUM_THREADS=1 python -m research.experiments.cast --seeds 1 2 3 --generator exact
    OMP_NUM_THREADS=1 python -m research.experiments.cast --seeds 1 2 3 --arms traits facts remembers
    OMP_NUM_THREADS=1 python -m research.experiments.cast --stories 60 --critic learned --arms facts

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
  a trait that is not true in all images was 19 of 27 (docs/how-to/comfyui/same-character.md).

The tiny generator accepts no reference images, so only words are measured.

Image models keep what a prompt names and change what it does not, and every edit of an edit changes more. The
tiny world's generator does not do that. `ForgetfulGenerator` adds it, before the wrapped generator edits:

- A thing that neither this prompt nor the one before names drifts: it gets another color or another place. A
  hash of story, thing and source decides whether (`chance`) and how, so another seed does not help.
- An edit or a clause that names the thing prevents both. What a prompt says about the cast prevents only what
  it states: a color, or a place.
- What a prompt says about the cast is also followed. A thing gets the color or place that it states, unless
  the edit names the thing, and a thing that is not on the page appears in a free cell.

The text about the cast (`types/cast.py`) follows the tiny world's prompt after a full stop. It has sentences
like "Fish: red." and "The fish is at the top left.".

A cast that a model writes costs one more reply per story. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.seams.generator import Generator
from interleave_thinker.backend.core.types import Plan, Verdict
from interleave_thinker.backend.core.types.cast import MAX_FACTS, CastMember
from interleave_thinker.research.tinyworld.stories import (
    BatchedAgent,
    BatchedTasks,
    SharedCritic,
    SharedGenerator,
    StoryOutcome,
    drawing,
    run_story,
)
from interleave_thinker.research.tinyworld.world.requests import TinyStory, random_story
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.tinyworld.drawing import CELL, draw
from interleave_thinker.tinyworld.generator import TinyWorldGenerator, load_pipeline
from interleave_thinker.tinyworld.oracle import drawn_of, verdict_of
from interleave_thinker.tinyworld.scene import (
    CELLS,
    COLORS,
    EMPTY,
    THINGS,
    Scene,
    StartScene,
    color_and_thing,
    identity_of,
    thing_of,
)
from interleave_thinker.tinyworld.scorer import expected_scene, read_image
from interleave_thinker.tinyworld.wording import Clause, edit_text, read_prompt
from interleave_thinker.training.statistics import Share, paired_difference, share

COUNTS = (1, 3, 5)
STEPS = 6
VERDICT_TOKENS = 224
"""Token limit of a verdict, as in the ablation."""
ARMS = ("remembers", "none", "names", "traits", "facts", "stale", "everyone", "wrong", "careless")
WRONG = {"wrong": 1, "careless": 7}
"""How many of ten traits and facts are wrong."""
WITH_FACTS = ("facts", "everyone", "wrong")
CHANCE = 0.5
"""Probability that a forgotten thing drifts."""
_TRAIT = re.compile(rf"({'|'.join(THINGS)}): ([^.]*)\.", re.IGNORECASE)
_CELL = "|".join(sorted(CELLS, key=len, reverse=True))
_FACT = re.compile(rf"the ({'|'.join(THINGS)}) is (?:({'|'.join(COLORS)})|at the ({_CELL}))\.", re.IGNORECASE)


@dataclass
class Stated:
    """What a prompt states about a thing: its color, its cell, or neither."""

    color: str | None = None
    cell: int | None = None


def cast_in(text: str) -> dict[str, Stated]:
    """Return what a text about the cast states, by thing. Facts replace traits."""
    found: dict[str, Stated] = {}
    for thing, traits in _TRAIT.findall(text):
        stated = found.setdefault(thing.lower(), Stated())
        stated.color = next((one for one in COLORS if one in traits.split(", ")), None)
    for thing, color, cell in _FACT.findall(text):
        stated = found.setdefault(thing.lower(), Stated())
        stated.color = color.lower() or stated.color
        stated.cell = CELLS.index(cell.lower()) if cell else stated.cell
    return found


def parts_of(prompt: str) -> tuple[str, str]:
    """Return the prompt in the words of the tiny world, and the text about the cast after it."""
    words, _, cast = prompt.partition(". ")
    return words, cast


class ForgetfulGenerator:
    """Wraps the generator of one story."""

    def __init__(self, inner: Generator, story: str, chance: float = CHANCE) -> None:
        self.inner, self._story, self._chance = inner, story, chance
        self._kept: dict[str, dict[str, Stated]] = {}
        """For each generated image, the things whose color or place its prompt named."""

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and the chance."""
        return f"{self.inner.identity} forgets {self._chance}"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Let things of the source drift, and generate an image from it."""
        words, text = parts_of(prompt)
        cast, read = cast_in(text), read_prompt(words)
        if read is None:
            return self.inner.draw(words, source, seed)
        edit, clauses = read
        named = {thing for thing in THINGS if thing in edit_text(edit).split()}
        named |= {thing for one in clauses if one.cell is not None and (thing := thing_of(one.content))}
        kept = cast | {thing: Stated(color=COLORS[0], cell=0) for thing in named}
        scene = None if source is None else read_image(source).scene
        shown = source
        if source is not None and scene is not None and not isinstance(edit, StartScene):
            rng = Random(f"{self._story}/{source.digest}/{words}")
            drifted = self._drifted(scene, (kept, self._kept.get(source.digest)))
            drifted = followed(
                drifted, {thing: one for thing, one in cast.items() if thing not in named}, rng
            )
            drifted = kept_free(drifted, scene, edit.apply(scene), clauses)
            shown = repainted(source, scene, drifted)
        image = self.inner.draw(words, shown, seed)
        self._kept.setdefault(image.digest, kept)
        return image

    def _drifted(self, scene: Scene, kept: tuple[dict[str, Stated], dict[str, Stated] | None]) -> Scene:
        """Return the scene with those colors and places changed that neither of two prompts named.

        Args:
            scene: The scene.
            kept: What this prompt and the one before named. The second is `None` if the image is not from
                this generator: nothing drifts then.
        """
        this, before = kept
        for cell in scene.occupied if before is not None else ():
            color, thing = color_and_thing(scene.cells[cell])
            rng = Random(f"{self._story}/{thing}/{scene}")
            if rng.random() >= self._chance:
                continue
            stated = [one[thing] for one in (this, before or {}) if thing in one]
            if rng.random() < 0.5:
                if all(one.color is None for one in stated):
                    other = rng.choice([one for one in COLORS if one != color])
                    scene = scene.put(cell, identity_of(other, thing))
            elif all(one.cell is None for one in stated) and scene.free:
                scene = moved(scene, cell, rng.choice(scene.free))
        return scene


def followed(scene: Scene, cast: dict[str, Stated], rng: Random) -> Scene:
    """Return the scene with every thing as the text about the cast states it."""
    for thing, stated in cast.items():
        cells = scene.find(thing)
        if not cells:
            if scene.free:
                color = stated.color or rng.choice(COLORS)
                scene = scene.put(rng.choice(scene.free), identity_of(color, thing))
            continue
        if stated.color is not None:
            scene = scene.put(cells[0], identity_of(stated.color, thing))
        if stated.cell is not None and stated.cell in scene.free:
            scene = moved(scene, cells[0], stated.cell)
    return scene


def kept_free(scene: Scene, before: Scene, after: Scene, clauses: list[Clause]) -> Scene:
    """Return the scene without the changes in cells that the edit fills or a clause names."""
    filled = {cell for cell in range(9) if before.cells[cell] == EMPTY and after.cells[cell] != EMPTY}
    for cell in filled | {one.cell for one in clauses if one.cell is not None}:
        if scene.cells[cell] != before.cells[cell]:
            scene = scene.put(cell, before.cells[cell])
    return scene


def moved(scene: Scene, cell: int, to: int) -> Scene:
    """Return the scene with the thing of a cell in another one."""
    return scene.put(to, scene.cells[cell]).put(cell, EMPTY)


def repainted(page: Picture, before: Scene, after: Scene) -> Picture:
    """Return the page with the cells that differ painted as in the second scene."""
    changed = [cell for cell in range(9) if before.cells[cell] != after.cells[cell]]
    if not changed:
        return page
    image, painted = page.image.copy(), draw(after).image
    for cell in changed:
        left, top = CELL * (cell % 3), CELL * (cell // 3)
        box = (left, top, left + CELL, top + CELL)
        image.paste(painted.crop(box), box)
    return Picture(image)


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
    return [draw(expected_scene(source, prompt)) for prompt, source, _ in requests]


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
) -> tuple[dict[int, list[StoryOutcome]], int]:
    """Run all stories of an arm.

    Args:
        stories: The stories.
        arm: The arm.
        judging: The critic: exact, learned or none.
        made_by: The generator: exact or learned.

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
    counts = COUNTS if judging != "none" else (1,)
    tasks: list[Callable[[], dict[int, StoryOutcome]]] = []
    for number, story in enumerate(stories):
        drawer: Generator = shared if arm == "remembers" else ForgetfulGenerator(shared, story.text)
        plan = with_cast(story, arm)
        tasks.append(
            partial(run_story, number, story, plan, drawer, None if judging == "none" else critic, counts)
        )
    told = together.run(tasks)
    return {attempts: [one[attempts] for one in told] for attempts in counts}, calls


def measured(ones: Sequence[StoryOutcome]) -> tuple[Share, Share, float]:
    """Return the shares of right stories and of right steps, and the images per step."""
    steps = [right for one in ones for right in one.steps]
    images = sum(one.draws for one in ones) / max(1, len(steps))
    return share([one.right for one in ones]), share(steps), images


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="Seeds whose stories are pooled.")
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=[*ARMS], help="In addition to none.")
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
        figures[arm] = {}
        for attempts, ones in told.items():
            whole, steps, images = measured(ones)
            change = paired_difference([one.right for one in ones], [one.right for one in plain[attempts]])
            figures[arm][attempts] = {
                "stories": whole.model_dump(),
                "steps": steps.model_dump(),
                "images": images,
                "change": change.model_dump(),
            }
            print(
                f"{arm:9s} {attempts} attempts: stories {whole}, steps {steps}, "
                f"{images:.2f} images per step, change of stories {change}",
                flush=True,
            )
        print(f"{arm:9s} {calls / count:.1f} replies of the critic per story, all runs together")
    print(json.dumps({"stories": count, "seeds": options.seeds, "arms": figures}))


if __name__ == "__main__":
    main()

"""Measures what a prompt enhancer changes in the tiny world: right clauses, its own reading, and noise.

    OMP_NUM_THREADS=1 python -m benchmarks.prompt_enhancer --stories 400 --seed 1

Stories with exact plans run through the regular loop with the shipped generator and critic, without an
enhancer and with each of these in front of the generator:

- right: adds true clauses about what the step changes and what is on the page. It knows the story, so it is
  an upper bound.
- prompt alone: adds the clauses that follow from the prompt itself, as a language model could.
- noise: adds one false clause about a random cell, the same for every attempt with the same prompt.
- contradiction: adds one false clause about a cell that the step changes.
- altered: replaces a color or the backdrop in every fourth prompt by another one.

A clause that the critic's refined prompt has about a cell stays, and nothing is added about this cell.

The critic judges against the plan's prompt, and its refined prompts are enhanced too. All arms have the same
stories and seeds, so differences are paired. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from interleave_thinker.backend.generators.enhanced import enhanced
from interleave_thinker.backend.types import Enhancement
from interleave_thinker.tinyworld.lab.data.critic_rows import MAX_CLAUSES
from interleave_thinker.tinyworld.lab.runs.batched_agents import BatchedAgent
from interleave_thinker.tinyworld.lab.runs.batched_tasks import (
    BatchedTasks,
    SharedCritic,
    SharedGenerator,
    drawing,
)
from interleave_thinker.tinyworld.lab.runs.stories import StoryOutcome, StoryRuns, measure_stories, run_story
from interleave_thinker.tinyworld.lab.world.requests import TinyStory, random_story
from interleave_thinker.tinyworld.lab.world.scenes import changed_cells
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.generator import TinyWorldGenerator, load_pipeline
from interleave_thinker.tinyworld.runtime.scene import (
    BACKDROPS,
    COLORS,
    IDENTITIES,
    Add,
    ChangeBackdrop,
    Edit,
    Scene,
    StartScene,
)
from interleave_thinker.tinyworld.runtime.wording import Clause, clauses_of, prompt_text, read_prompt
from interleave_thinker.training.statistics.intervals import paired_difference

COUNTS = (1, 3, 5)
ALTERED = "altered"
VERDICT_TOKENS = 224
"""Token limit of a verdict, as in the ablation."""
Pages = dict[str, tuple[Scene | None, Scene]]
"""For each edit of a story, the page before and after it. An edit that is repeated in a story is left out."""
Adding = Callable[[Pages, Edit | StartScene, Sequence[Clause]], list[Clause]]


class TinyEnhancer:
    """Adds clauses to the prompts of one story. Clauses that the prompt has already stay."""

    def __init__(self, identity: str, story: TinyStory, adding: Adding) -> None:
        self.identity, self._adding, self._pages = identity, adding, pages_of(story)

    def enhance(self, prompt: str, is_edit: bool) -> Enhancement:
        """Return the prompt with more clauses, at most MAX_CLAUSES; another language is left as it is."""
        found = read_prompt(prompt)
        if found is None:
            return Enhancement(prompt=prompt)
        if self.identity == ALTERED:
            return Enhancement(prompt=altered(prompt))
        edit, clauses = found
        named = {clause.cell for clause in clauses}
        more = [one for one in self._adding(self._pages, edit, clauses) if one.cell not in named]
        room = max(0, MAX_CLAUSES - len(clauses))
        return Enhancement(prompt=prompt_text(edit, [*clauses, *more[:room]]))


def pages_of(story: TinyStory) -> Pages:
    """Return the pages before and after each edit of a story."""
    prompts = [step.prompt for step in story.plan.steps if step.prompt]
    before: list[Scene | None] = [story.before, *story.pages[:-1]]
    return {
        prompt: pages
        for prompt, pages in zip(prompts, zip(before, story.pages, strict=True), strict=True)
        if prompts.count(prompt) == 1
    }


def right(pages: Pages, edit: Edit | StartScene, clauses: Sequence[Clause]) -> list[Clause]:
    """Return true clauses: about the cells that change, then about the other things on the page."""
    if prompt_text(edit) not in pages:
        return []
    before, after = pages[prompt_text(edit)]
    changed = changed_cells(before, after)
    return clauses_of(
        after, sorted({*changed, *after.occupied}, key=lambda cell: (cell not in changed, cell))
    )


def prompt_alone(pages: Pages, edit: Edit | StartScene, clauses: Sequence[Clause]) -> list[Clause]:
    """Return the clauses that follow from the prompt itself."""
    match edit:
        case StartScene(scene, order):
            return clauses_of(scene, order)
        case Add(identity, cell):
            return [Clause(cell, identity)]
        case ChangeBackdrop(backdrop):
            return [Clause(None, backdrop)]
        case _:
            return []


def noise(pages: Pages, edit: Edit | StartScene, clauses: Sequence[Clause]) -> list[Clause]:
    """Return one false clause about a random cell that the prompt does not name."""
    return _false(pages, edit, clauses, lambda before, after: range(9))


def contradiction(pages: Pages, edit: Edit | StartScene, clauses: Sequence[Clause]) -> list[Clause]:
    """Return one false clause about a cell that the step changes and the prompt does not name."""
    return _false(pages, edit, clauses, changed_cells)


def _false(
    pages: Pages,
    edit: Edit | StartScene,
    clauses: Sequence[Clause],
    of: Callable[[Scene | None, Scene], Sequence[int]],
) -> list[Clause]:
    """Return one false clause about one of these cells that the prompt does not name."""
    if prompt_text(edit) not in pages:
        return []
    before, after = pages[prompt_text(edit)]
    rng = Random(prompt_text(edit, clauses))
    named = {clause.cell for clause in clauses}
    cells = [cell for cell in of(before, after) if cell not in named]
    if not cells:
        return []
    cell = rng.choice(cells)
    return [Clause(cell, rng.choice([one for one in range(IDENTITIES) if one != after.cells[cell]]))]


def altered(prompt: str) -> str:
    """Return every fourth prompt with a color or backdrop of its edit replaced by another one."""
    rng = Random(f"altered/{prompt}")
    edit, *clauses = prompt.split(";")
    words = [word for word in edit.split() if word in COLORS or word in BACKDROPS]
    if not words or rng.randrange(4):
        return prompt
    word = rng.choice(words)
    other = rng.choice([one for one in (COLORS if word in COLORS else BACKDROPS) if one != word])
    return ";".join([edit.replace(word, other, 1), *clauses])


ARMS: dict[str, Adding | None] = {
    "none": None,
    "right": right,
    "prompt alone": prompt_alone,
    "noise": noise,
    "contradiction": contradiction,
    ALTERED: lambda pages, edit, clauses: [],
}


def outcomes_of(stories: Sequence[TinyStory], name: str, judged: bool) -> dict[int, list[StoryOutcome]]:
    """Run all stories with one enhancer and return their outcomes by number of attempts."""
    generator = TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")
    agent = BatchedAgent(checkpoint("critic"), VERDICT_TOKENS, VERDICT_TOKENS)

    together = BatchedTasks({"draw": drawing(generator), "judge": agent.judge})
    shared, critic = SharedGenerator(together, "tinyworld"), SharedCritic(together, "critic")
    runs = StoryRuns(COUNTS if judged else (1,), unreadable="lost")
    adding = ARMS[name]
    tasks = []
    for number, story in enumerate(stories):
        drawer = enhanced(shared, TinyEnhancer(name, story, adding)) if adding else shared
        tasks.append(partial(run_story, number, story, story.plan, drawer, critic if judged else None, runs))
    told = together.run(tasks)
    return {attempts: [one[attempts] for one in told] for attempts in runs.max_attempts}


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arms", nargs="*", choices=[*ARMS], default=[*ARMS], help="In addition to none.")
    parser.add_argument("--alone", action="store_true", help="Only one attempt, without the critic.")
    options = parser.parse_args()
    rng = Random(f"enhancer/{options.seed}")
    stories = [random_story(rng, "evaluate") for _ in range(options.stories)]
    figures: dict[str, dict[int, dict[str, object]]] = {}
    plain: dict[int, list[StoryOutcome]] = {}
    for name in dict.fromkeys(["none", *options.arms]):
        told = outcomes_of(stories, name, not options.alone)
        plain = plain or told
        measure = measure_stories(told)
        figures[name] = {}
        for attempts, ones in told.items():
            change = paired_difference([one.right for one in ones], [one.right for one in plain[attempts]])
            figures[name][attempts] = {
                "stories": measure.stories[attempts].model_dump(),
                "steps": measure.steps[attempts].model_dump(),
                "images": measure.draws[attempts],
                "change": change.model_dump(),
            }
            print(
                f"{name:13s} {attempts} attempts: stories {measure.stories[attempts]}, "
                f"steps {measure.steps[attempts]}, {measure.draws[attempts]:.2f} images per step, "
                f"change of stories {change}",
                flush=True,
            )
    print(json.dumps({"stories": len(stories), "seed": options.seed, "arms": figures}))


if __name__ == "__main__":
    main()

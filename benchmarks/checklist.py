"""Measures in the tiny world what a checklist does for a critic that overlooks mistakes.

    OMP_NUM_THREADS=1 python -m benchmarks.checklist --seeds 1 2 3
    OMP_NUM_THREADS=1 python -m benchmarks.checklist --seeds 1 2 3 --count-error 0.05 0.15 0.25 0.35
    OMP_NUM_THREADS=1 python -m benchmarks.checklist --stories 150 --verdicts learned --arms items

Stories of four steps with exact plans run through the regular loop with the shipped generator and five
attempts. Each step has a checklist: color and place of what it changes, what must be gone, the number of
things, the backdrop, and that nothing else changed. Items are answered by a script that reads the image and
is wrong with a fixed probability by kind (ERRORS), since the shipped critic was not trained to answer single
questions. Its verdicts are scripted too (it accepts a quarter of the wrong images), or the shipped critic's.
All arms have the same stories and seeds, so differences are paired. Arms:

- verdict: without items.
- veto: with all items but that about the number, and nothing is asked for.
- items: as veto, and the next prompt asks for what failed.
- with count: as items, with the item about the number, which is answered at random.
- marked: as with count, but that kind is marked as unreliable (`evaluate critic --save`).

A sentence of the loop ("Make sure of this: ...") becomes clauses of the tiny world's prompts on the way to
the generator. Expected before the first run: items make a quarter of the stories right that were wrong, veto
alone half of that; with count costs an image per step and gains nothing; marked is as items; a critic that is
right in 99 % of the cases gains nothing. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from interleave_thinker.backend.generators import Generator
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import CheckedItem, ChecklistItem, Plan, Verdict
from interleave_thinker.tinyworld.lab.data.critic_rows import MAX_CLAUSES, verdict_of
from interleave_thinker.tinyworld.lab.data.oracle_critic import drawn_of
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
from interleave_thinker.tinyworld.runtime.reading import ImageReading, read_image
from interleave_thinker.tinyworld.runtime.scene import (
    BACKDROPS,
    CELLS,
    EMPTY,
    Recolor,
    Scene,
    StartScene,
    color_and_thing,
    thing_of,
)
from interleave_thinker.tinyworld.runtime.wording import clauses_of, prompt_text, read_prompt
from interleave_thinker.training.statistics.intervals import paired_difference

from .cast import verdicts_of

STEPS, ATTEMPTS = 4, 5
ERRORS = {"color": 0.03, "place": 0.05, "identity": 0.05, "other": 0.05, "count": 0.5}
"""Probability of a wrong answer to an item, by kind."""
ACCEPTS_WRONG, REJECTS_RIGHT = 0.25, 0.05
"""Probabilities of wrong scripted verdicts."""
SENTENCE = ". Make sure of this: "
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ARMS = ("verdict", "veto", "items", "with count", "marked")

Holds = Callable[[ImageReading, Scene | None], bool]
"""Whether an item is true of an image, given the scene that was edited."""


@dataclass(frozen=True)
class TinyItem:
    """An item, how it is read from an image, and the cell of a clause that asks for it.

    `cell` is -1 for the backdrop and `None` if no clause can ask for it.
    """

    item: ChecklistItem
    holds: Holds
    cell: int | None = None


def items_of(before: Scene | None, prompt: str) -> list[TinyItem]:
    """Return the checklist of a step, given the scene that it edits."""
    found = read_prompt(prompt)
    assert found is not None, prompt
    edit, _ = found
    expected = edit.apply(before)  # pyright: ignore[reportArgumentType]
    changed = expected.occupied if isinstance(edit, StartScene) else changed_cells(before, expected)
    cells = expected.find(edit.thing) if isinstance(edit, Recolor) else changed
    items = [one for cell in cells[:4] for one in _cell_items(expected, cell)]
    gone = getattr(edit, "thing", None)
    if gone and not expected.find(gone) and before is not None:
        cell = next(iter(before.find(gone)), None)
        items.append(
            _item(f"there is no {gone}", "identity", lambda seen, _: not _cells_with(seen, gone), cell)
        )
    number, backdrop = len(expected.occupied), expected.backdrop
    rest = [cell for cell in range(9) if cell not in cells]
    return [
        *items,
        _item(f"the page is {BACKDROPS[backdrop]}", "other", lambda seen, _: seen.backdrop == backdrop, -1),
        _item(
            "nothing else changed",
            "other",
            lambda seen, source: all(
                seen.cells[cell] == (source.cells[cell] if source else EMPTY) for cell in rest
            ),
        ),
        _item(
            f"there are {NUMBERS[number]} things",
            "count",
            lambda seen, _: sum(one != EMPTY for one in seen.cells) == number,
        ),
    ]


def _cell_items(expected: Scene, cell: int) -> list[TinyItem]:
    if expected.cells[cell] == EMPTY:
        text = f"there is nothing at the {CELLS[cell]}"
        return [_item(text, "place", lambda seen, _: seen.cells[cell] == EMPTY, cell)]
    color, thing = color_and_thing(expected.cells[cell])
    at_cell = _item(
        f"a {thing} is at the {CELLS[cell]}", "place", lambda seen, _: cell in _cells_with(seen, thing), cell
    )
    if len(expected.find(thing)) > 1:
        return [at_cell]
    colors = lambda seen: {color_and_thing(seen.cells[one])[0] for one in _cells_with(seen, thing)}  # noqa: E731
    return [at_cell, _item(f"the {thing} is {color}", "color", lambda seen, _: colors(seen) == {color}, cell)]


def _cells_with(seen: ImageReading, thing: str) -> list[int]:
    return [cell for cell, one in enumerate(seen.cells) if one > EMPTY and thing_of(one) == thing]


def _item(text: str, kind: str, holds: Holds, cell: int | None = None) -> TinyItem:
    return TinyItem(ChecklistItem.model_validate({"text": text, "kind": kind}), holds, cell)


class StoryItems:
    """The checklists of a story, by the prompt of their step."""

    def __init__(self, story: TinyStory, arm: str) -> None:
        self.plan = story.plan
        self._steps: list[tuple[str, list[TinyItem], Scene]] = []
        """Prompt, checklist and page of each step; a prompt may occur twice."""
        if arm == "verdict":
            return
        before, drawn, steps = story.before, iter(story.pages), []
        for step in story.plan.steps:
            if step.prompt:
                items = items_of(before, step.prompt)
                if arm in ("veto", "items"):
                    items = [one for one in items if one.item.kind != "count"]
                before = next(drawn)
                self._steps.append((step.prompt, items, before))
                step = step.model_copy(update={"checklist": tuple(one.item for one in items)})
            steps.append(step)
        self.plan = Plan(**dict(story.plan) | {"steps": tuple(steps)})

    def holding(
        self, prompt: str, items: Sequence[ChecklistItem], before: Picture | None, after: Picture
    ) -> list[bool]:
        """Return for each item of a step whether it is true of an image."""
        asked = next(
            own for step, own, _ in self._steps if step == prompt and [one.item for one in own] == list(items)
        )
        seen, source = read_image(after), read_image(before).scene if before else None
        return [one.holds(seen, source) for one in asked]

    def in_clauses(self, prompt: str, asks: bool) -> str:
        """Return the loop's prompt in the words of the tiny world, with clauses if it `asks` for items."""
        words, _, sentence = prompt.partition(SENTENCE)
        found = read_prompt(words)
        if not sentence or not asks or found is None:
            return words
        edit, clauses = found
        step = prompt_text(edit)
        named, texts = {clause.cell for clause in clauses}, sentence.rstrip(".").split("; ")
        asked = [(one, page) for own, items, page in self._steps if own == step for one in items]
        for one, page in asked:
            cell = None if one.cell == -1 else one.cell
            if one.item.text in texts and one.cell is not None and cell not in named:
                stated = clauses_of(page, [] if cell is None else [cell], backdrop=cell is None)
                clauses, named = [*clauses, *stated], {*named, cell}
        return prompt_text(edit, clauses[-MAX_CLAUSES:])


class AskingGenerator:
    """Passes prompts in the words of the tiny world to the generator."""

    def __init__(self, inner: Generator, items: StoryItems, asks: bool) -> None:
        self.inner, self.items, self.asks = inner, items, asks
        self.identity = inner.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image."""
        return self.inner.draw(self.items.in_clauses(prompt, self.asks), source, seed)


class ItemCritic:
    """The verdicts of a critic, and scripted answers to items."""

    prompt_set_digest = ""

    def __init__(self, inner: SharedCritic, items: StoryItems, arm: str, errors: dict[str, float]) -> None:
        self.inner, self.items, self.errors = inner, items, errors
        self.unreliable = "count" if arm == "marked" else ""
        self.identity, self.asked, self.asks = inner.identity, 0, arm != "veto"

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Return the verdict on the whole image."""
        used = self.items.in_clauses(prompt_used, self.asks)
        return self.inner.judge(before, after, original_prompt, used)

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        """Answer items, each of them wrongly with a fixed probability."""
        self.asked += len(items)
        answers = []
        truths = self.items.holding(original_prompt, items, before, after)
        for item, truth in zip(items, truths, strict=True):
            wrong = Random(f"{after.digest}/{item.text}").random() < self.errors[item.kind]
            passed = truth != wrong
            answers.append(
                CheckedItem(**item.model_dump(), passed=None if item.kind == self.unreliable else passed)
            )
        return tuple(answers)


def scripted(requests: Sequence[tuple[Picture | None, Picture, str, str]]) -> list[Verdict]:
    """Return verdicts that are wrong with a fixed probability, and the oracle's refined prompts."""
    verdicts = []
    for before, after, original, used in requests:
        drawn = drawn_of(before, after, original, used)
        if drawn is None:
            verdicts.append(Verdict(success=False))
            continue
        error = REJECTS_RIGHT if drawn.success else ACCEPTS_WRONG
        wrong = Random(f"{after.digest}/{original}").random() < error
        success = drawn.success != wrong
        verdicts.append(Verdict(success=success) if wrong else verdict_of(drawn))
    return verdicts


def outcomes_of(
    stories: Sequence[TinyStory], arm: str, verdicts: str, errors: dict[str, float]
) -> tuple[list[StoryOutcome], int, int]:
    """Run all stories of an arm. Return their outcomes, the number of verdicts and that of items."""
    generator = TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")
    judged_by = verdicts_of("learned") if verdicts == "learned" else scripted
    judged = 0

    def judge(requests: Sequence[tuple[Picture | None, Picture, str, str]]) -> Sequence[Verdict]:
        nonlocal judged
        judged += len(requests)
        return judged_by(requests)

    together = BatchedTasks({"draw": drawing(generator), "judge": judge})
    shared, critic = SharedGenerator(together, "tinyworld"), SharedCritic(together, "critic")
    runs = StoryRuns((ATTEMPTS,), unreadable="lost")
    tasks, critics = [], []
    for number, story in enumerate(stories):
        items = StoryItems(story, arm)
        critics.append(ItemCritic(critic, items, arm, errors))
        drawer = AskingGenerator(shared, items, arm != "veto")
        tasks.append(partial(run_story, number, story, items.plan, drawer, critics[-1], runs))
    told = [one[ATTEMPTS] for one in together.run(tasks)]
    return told, judged, sum(one.asked for one in critics)


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="Seeds whose stories are pooled.")
    parser.add_argument("--verdicts", choices=("scripted", "learned"), default="scripted")
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=ARMS[1:], help="In addition to verdict.")
    parser.add_argument(
        "--count-error", type=float, nargs="*", default=[], help="Further arms: with count, with this error."
    )
    options = parser.parse_args()
    sets = []
    for seed in options.seeds:
        rng = Random(f"checklist/{seed}")
        sets.append([random_story(rng, "evaluate", STEPS) for _ in range(options.stories)])
    arms = [(arm, arm, ERRORS) for arm in dict.fromkeys(["verdict", *options.arms])]
    arms += [
        (f"count error {error:g}", "with count", ERRORS | {"count": error}) for error in options.count_error
    ]
    plain: list[bool] = []
    figures: dict[str, dict[str, object]] = {}
    for name, arm, errors in arms:
        runs = [outcomes_of(stories, arm, options.verdicts, errors) for stories in sets]
        told = [one for some, _, _ in runs for one in some]
        measure = measure_stories({ATTEMPTS: told})
        right = [one.right for one in told]
        plain = plain or right
        change = paired_difference(right, plain)
        items = sum(asked for _, _, asked in runs) / sum(judged for _, judged, _ in runs)
        figures[name] = {
            "stories": measure.stories[ATTEMPTS].model_dump(),
            "steps": measure.steps[ATTEMPTS].model_dump(),
            "images": measure.draws[ATTEMPTS],
            "items": items,
            "change": change.model_dump(),
        }
        print(
            f"{name:16s} stories {measure.stories[ATTEMPTS]}, steps {measure.steps[ATTEMPTS]}, "
            f"{measure.draws[ATTEMPTS]:.2f} images per step, {items:.1f} items per verdict, change {change}",
            flush=True,
        )
    print(json.dumps({"verdicts": options.verdicts, "seeds": options.seeds, "arms": figures}))


if __name__ == "__main__":
    main()

"""Measures in the tiny world what it brings to generate a step anew from text when its attempts are used up.

    OMP_NUM_THREADS=1 python -m benchmarks.step_rewriting --stories 100
    OMP_NUM_THREADS=1 python -m benchmarks.step_rewriting --stories 40 --critic learned

Stories of six steps with exact plans run through the regular loop with the shipped generator. The rewriter is
scripted: it knows the scene that the step must show, and names all of it. `--wrong` is the share of its
prompts that name another color or place, since a model that writes them makes mistakes. The tiny world's own
planner cannot describe scenes. Expected before the first run: better than as many images by more attempts,
since most failures repeat with every seed. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from interleave_thinker.backend.journal.store import InMemoryStore
from interleave_thinker.backend.loop.events import Finished, StepRewritten
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, RunSettings, Step
from interleave_thinker.tinyworld.lab.runs.batched_tasks import BatchedTasks, SharedCritic, SharedGenerator
from interleave_thinker.tinyworld.lab.runs.stories import request_of
from interleave_thinker.tinyworld.lab.world.requests import TinyStory, random_story
from interleave_thinker.tinyworld.lab.world.scenes import random_edit
from interleave_thinker.tinyworld.runtime.reading import read_image
from interleave_thinker.tinyworld.runtime.scene import StartScene
from interleave_thinker.tinyworld.runtime.scorer import faults
from interleave_thinker.tinyworld.runtime.wording import prompt_text
from interleave_thinker.training.statistics.intervals import paired_difference, share

from .cast import images_of, verdicts_of

STEPS = 6
Rewriter = Callable[[Plan, Step, str], "str | None"]


def rewriter_of(story: TinyStory, wrong: float) -> Rewriter:
    """Return a rewriter that names the whole scene of a step, sometimes with one mistake."""
    rng = Random(f"rewriter/{story.text}")

    def rewritten(plan: Plan, step: Step, problem: str) -> str:
        page = story.pages[step.number - 1]
        if rng.random() < wrong:
            page = random_edit(rng, page).apply(page)
        return prompt_text(StartScene(page))

    return rewritten


def right(
    number: int,
    story: TinyStory,
    shared: tuple[SharedGenerator, SharedCritic],
    attempts: int,
    wrong: float | None,
) -> tuple[bool, int]:
    """Run a story; return whether all its pages are right, and how often a step was rewritten."""
    rewriter = None if wrong is None else rewriter_of(story, wrong)
    settings = RunSettings(max_attempts=attempts, seed=number)
    rewritten = 0
    for event in run(
        request_of(story), None, *shared, settings, InMemoryStore(), story.plan, rewriter=rewriter
    ):
        rewritten += isinstance(event, StepRewritten)
        if isinstance(event, Finished):
            images = [result.image for result in event.trajectory.results]
            good = len(images) == len(story.pages) and all(
                image is not None and not faults(page, read_image(image))
                for image, page in zip(images, story.pages, strict=True)
            )
            return good, rewritten
    raise AssertionError("a run ends with Finished")


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=100)
    parser.add_argument("--attempts", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--wrong", type=float, nargs="+", default=[0.0, 0.3])
    parser.add_argument("--critic", choices=("exact", "learned"), default="exact")
    options = parser.parse_args()
    rng = Random("step rewriting")
    stories = [random_story(rng, "evaluate", STEPS) for _ in range(options.stories)]
    judge, drawn = verdicts_of(options.critic), images_of("learned")
    images = 0

    def draw(requests: Sequence[tuple[str, Picture | None, int]]) -> Sequence[Picture]:
        nonlocal images
        images += len(requests)
        return drawn(requests)

    figures = []
    for attempts in options.attempts:
        base: list[bool] = []
        for wrong in (None, *options.wrong):
            images = 0
            together = BatchedTasks({"draw": draw, "judge": judge})
            shared = SharedGenerator(together, "tinyworld"), SharedCritic(together, "critic")
            told = together.run(
                [partial(right, number, one, shared, attempts, wrong) for number, one in enumerate(stories)]
            )
            found = [good for good, _ in told]
            base = base or found
            change = paired_difference(found, base)
            row = {
                "attempts": attempts,
                "wrong": wrong,
                "stories": share(found).model_dump(),
                "change": change.model_dump(),
                "images": round(images / len(stories), 2),
                "rewritten": round(sum(times for _, times in told) / len(stories), 3),
            }
            figures.append(row)
            arm = "without" if wrong is None else f"rewritten, {wrong:.0%} wrong"
            extra = f"{row['images']} images and {row['rewritten']} rewritten steps a story"
            print(
                f"{attempts} attempts, {arm}: stories {share(found)}, change {change}, {extra}",
                flush=True,
            )
    print(json.dumps({"stories": options.stories, "critic": options.critic, "rows": figures}))


if __name__ == "__main__":
    main()

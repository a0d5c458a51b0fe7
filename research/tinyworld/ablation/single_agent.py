"""One agent that plans step by step while it looks at the images: a baseline for the two agents.

It uses the same classes, answers and loop as the two agents. For a next step it gets the current image and
the number of finished steps, and answers with the next step only, or that the story is complete. Without a
number it writes a whole plan like any planner. The step is then generated and judged (by the same agent) like
a plan with one step. Its training images are rendered, and a quarter of them have a mistake, as in a real
story.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from ....backend.core.answers.reading import write_plan
from ....backend.core.errors import AnswerError
from ....backend.core.pictures import Picture
from ....backend.core.prompts.prompt_set import fill
from ....backend.core.types import Plan, Request, RunSettings, Step
from ....backend.core.types.roles import CriticLike, PlannerLike
from ....backend.models.generators import Generator
from ....backend.story.journal.store import InMemoryStore
from ....backend.story.loop.collaborators import Collaborators
from ....backend.story.loop.events import Finished
from ....backend.story.loop.loop import run
from ....tinyworld.drawing import draw
from ....tinyworld.scene import Edit, Scene, StartScene
from ....tinyworld.wording import read_prompt
from ....training.rows.sft import SftRow
from ..data.critic_rows import PROMPT_SET, ImageFolder, row_of
from ..world.requests import TinyStory, random_story
from ..world.scenes import misdraw, random_luck

NO_MORE = "no more"
MAX_STEPS = 8
WITH_A_MISTAKE = 0.25


def question(text: str, done: int) -> str:
    """Phrase the request for the next step."""
    return f"{text} Done: {done}."


def next_step(story: TinyStory, done: int) -> Plan:
    """Return the correct answer after `done` steps: the next step, or the end."""
    steps = story.plan.steps
    if done < len(steps):
        return Plan(steps=(steps[done],), reasoning=f"{done} done, next {steps[done].name}")
    end = Step(number=done + 1, name=NO_MORE, auxiliary_text="The story is told.")
    return Plan(steps=(end,), reasoning=f"{done} done, {NO_MORE}")


def _right_page(story: TinyStory, done: int) -> Scene | None:
    """Return the scene after `done` correct steps."""
    drawn = sum(bool(step.prompt) for step in story.plan.steps[:done])
    return story.pages[drawn - 1] if drawn else story.before


def _page_now(rng: Random, story: TinyStory, done: int) -> Scene | None:
    """Return the scene after `done` steps: correct, or with a mistake in the last one."""
    drawn = [step for step in story.plan.steps[:done] if step.prompt]
    scene = _right_page(story, done)
    if not drawn or scene is None or rng.random() > WITH_A_MISTAKE:
        return scene
    before = story.pages[len(drawn) - 2] if len(drawn) > 1 else story.before
    found = read_prompt(drawn[-1].prompt or "")
    assert found is not None
    return _spoilt(rng, before, found[0], scene)


def _spoilt(rng: Random, before: Scene | None, edit: Edit | StartScene, right: Scene) -> Scene:
    for _ in range(100):
        scene = misdraw(before, edit, [], random_luck(rng))
        if scene != right:
            return scene
    return right


def make_planning(folder: Path, count: int, seed: int) -> list[SftRow]:
    """Return `count` rows that teach the next step of a partly finished story."""
    rng = Random(f"next steps/{seed}")
    pages = ImageFolder(folder / "pages")
    rows = []
    for _ in range(count):
        story = random_story(rng, "train")
        done = rng.randint(0, len(story.plan.steps))
        page = _page_now(rng, story, done)
        template = PROMPT_SET.planner_text if page is None else PROMPT_SET.planner_images
        asked = fill(template, text_input=question(story.text, done))
        images = [pages.name(draw(page))] if page else []
        rows.append(row_of(asked, write_plan(next_step(story, done)), images))
    return rows


def corpus(count: int) -> Iterator[str]:
    """Yield planning texts for the vocabulary of a model that must also plan."""
    rng = Random("vocabulary")
    for _ in range(count):
        story = random_story(rng, "train")
        yield fill(PROMPT_SET.planner_text, text_input=question(story.text, 0))
        yield write_plan(story.plan)
        yield write_plan(next_step(story, rng.randint(0, len(story.plan.steps))))


def run_step_by_step(
    request: Request,
    planner: PlannerLike,
    critic: CriticLike,
    generator: Generator,
    settings: RunSettings,
    store: InMemoryStore,
) -> tuple[list[Picture] | None, int]:
    """Run a story that is planned while it is generated.

    Returns:
        The images and the number of generated images. The images are `None` if an answer cannot be read, a
            step has no image, or the story does not end.
    """
    page = request.images[-1] if request.images else None
    pages: list[Picture] = []
    draws = 0
    for done in range(MAX_STEPS):
        shown = (page,) if page else ()
        try:
            plan = planner.plan(Request(text=question(request.text, done), images=shown))
        except AnswerError:
            return None, draws
        step = plan.steps[0].model_copy(update={"number": done + 1})
        if step.name == NO_MORE:
            return pages, draws
        if not step.prompt:
            continue
        one = Plan(steps=(step,), reasoning=plan.reasoning)
        for event in run(
            Request(text=request.text, images=shown),
            Collaborators(None, generator, critic),
            settings,
            store,
            one,
        ):
            if isinstance(event, Finished):
                page = event.trajectory.results[0].image
                draws += len(event.trajectory.results[0].attempts)
        if page is None:
            return None, draws
        pages.append(page)
    return None, draws

"""Whole stories of the tiny world, run through the loop with given plans and checked image by image.

A story counts only if every image shows exactly what the request asked for. A wrong plan or an uncorrected
mistake therefore fails the story. Runs with different numbers of attempts share their images, which are equal
until the runs diverge.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from ...backend.core.errors import AnswerError, ScorerError
from ...backend.core.types import Plan, Request, RunSettings, StopReason, Trajectory
from ...backend.core.types.roles import CriticLike
from ...backend.models.generators import Generator
from ...backend.story.journal.store import InMemoryStore
from ...backend.story.loop.collaborators import Collaborators
from ...backend.story.loop.events import Finished
from ...backend.story.loop.loop import run
from ...tinyworld.drawing import draw
from ...tinyworld.scorer import TinyWorldScorer, faults, read_image
from .world.requests import TinyStory


def request_of(story: TinyStory) -> Request:
    """Return the request as a user would make it."""
    return Request(text=story.text, images=(draw(story.before),) if story.before else ())


class StoryOutcome(BaseModel):
    """Outcome of one story.

    Attributes:
        right: Whether every image is correct.
        steps: For each step with an image, whether it is correct.
        accepted: Number of steps whose image the critic accepted.
        draws: Number of generated images.
        seconds: Time of generating them.
    """

    right: bool
    steps: list[bool]
    accepted: int = 0
    draws: int = 0
    seconds: float = 0.0


def run_story(
    number: int,
    story: TinyStory,
    plan: Plan | None,
    generator: Generator,
    critic: CriticLike | None,
    counts: Sequence[int],
) -> dict[int, StoryOutcome]:
    """Run one story with every number of attempts.

    Args:
        number: Base seed.
        story: The story.
        plan: Its plan; `None` loses the story.
        generator: The generator.
        critic: The critic; without one, each step has one attempt.
        counts: Numbers of attempts.

    A story whose verdict cannot be read is lost.
    """
    store, outcomes = InMemoryStore(), {}
    for attempts in counts:
        if plan is None:
            outcomes[attempts] = lost(story)
            continue
        settings = RunSettings(max_attempts=attempts, seed=number)
        try:
            trajectory = _run_story(request_of(story), plan, generator, critic, settings, store)
        except AnswerError:
            outcomes[attempts] = lost(story)
            continue
        made = [attempt for result in trajectory.results for attempt in result.attempts]
        outcomes[attempts] = StoryOutcome(
            right=_is_right(trajectory, story),
            steps=right_steps(trajectory),
            accepted=sum(result.stop_reason is StopReason.accepted for result in trajectory.results),
            draws=len(made),
            seconds=sum(attempt.seconds for attempt in made),
        )
    return outcomes


def lost(story: TinyStory) -> StoryOutcome:
    """Return the outcome of a lost story: it and all its steps are wrong."""
    return StoryOutcome(right=False, steps=[False] * len(story.pages))


def _run_story(
    request: Request,
    plan: Plan,
    generator: Generator,
    critic: CriticLike | None,
    settings: RunSettings,
    store: InMemoryStore,
) -> Trajectory:
    for event in run(request, Collaborators(None, generator, critic), settings, store, plan):
        if isinstance(event, Finished):
            return event.trajectory
    raise AssertionError("a run ends with Finished")


def _is_right(trajectory: Trajectory, story: TinyStory) -> bool:
    pages = [result.image for result in trajectory.results if result.step.prompt]
    return len(pages) == len(story.pages) and all(
        page is not None and not faults(scene, read_image(page))
        for page, scene in zip(pages, story.pages, strict=True)
    )


def right_steps(trajectory: Trajectory) -> list[bool]:
    """Return for each step with an image whether it is what its prompt makes of its source."""
    outcomes = []
    for result in trajectory.results:
        if not result.step.prompt:
            continue
        try:
            attempt = result.attempts[result.chosen] if result.chosen is not None else None
            outcomes.append(
                attempt is not None
                and attempt.image is not None
                and TinyWorldScorer().success(attempt.source, attempt.image, result.step.prompt)
            )
        except ScorerError:
            outcomes.append(False)
    return outcomes

"""Measures the tiny world on requests that were not used in training: planner, critic, and whole stories.

Stories run through the regular loop, and a story counts only if every image shows exactly what the request
asked for. A wrong plan or an uncorrected mistake therefore fails the story. The critic judges generated
images, half of them correct. Runs with different numbers of attempts share their images, which are equal
until the runs diverge.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import BaseModel

from ...backend.agents.critic import Critic
from ...backend.agents.planner import Planner
from ...backend.errors import AnswerError
from ...backend.loop.collaborators import Collaborators
from ...backend.loop.loop import run
from ...backend.types import Plan, RunSettings
from ...training.statistics import Share, share
from ..runtime.generator import TinyWorldGenerator
from ..runtime.wording import edit_text, prompt_text, read_prompt
from .runs.stories import StoryMeasure, StoryRuns, measure_stories, request_of, run_stories
from .world.judged_images import DrawnImage, balanced
from .world.requests import TinyStory, random_story

Log = Callable[[str], None]
TIMED_STORIES = 9


class PlannerMeasure(BaseModel):
    """Share of requests whose plan equals the correct one in every field of every step (`exact`)."""

    exact: Share


class CriticMeasure(BaseModel):
    """Correct verdicts on a balanced set of generated images.

    Attributes:
        accuracy: Share of correct verdicts.
        true_recall: Share of correct images that are accepted.
        false_recall: Share of wrong images that are rejected.
        parsed: Share of answers that could be read.
        refined: Share of refined prompts that ask for the same edit, with true clauses only.
    """

    accuracy: Share
    true_recall: Share
    false_recall: Share
    parsed: Share
    refined: Share


def measure_planner(
    planner: Planner, stories: Sequence[TinyStory]
) -> tuple[PlannerMeasure, list[Plan | None]]:
    """Plan every story once and return the plans for running the stories (`None`: unreadable answer)."""
    plans: list[Plan | None] = []
    for story in stories:
        try:
            plans.append(planner.plan(request_of(story)))
        except AnswerError:
            plans.append(None)
    exact = [
        plan is not None and plan.steps == story.plan.steps
        for plan, story in zip(plans, stories, strict=True)
    ]
    return PlannerMeasure(exact=share(exact)), plans


def measure_critic(critic: Critic, pages: Sequence[DrawnImage]) -> CriticMeasure:
    """Ask the critic about every image."""
    right, parsed, refined = [], [], []
    for drawn in pages:
        verdict = critic.judge(
            drawn.before, drawn.after, edit_text(drawn.edit), prompt_text(drawn.edit, drawn.clauses)
        )
        right.append(verdict.success == drawn.success)
        parsed.append(verdict.success is not None)
        if not drawn.success and verdict.success is False:
            refined.append(_is_true_remedy(drawn, verdict.refined_prompt))
    truths = [drawn.success for drawn in pages]
    return CriticMeasure(
        accuracy=share(right),
        true_recall=share([ok for ok, truth in zip(right, truths, strict=True) if truth]),
        false_recall=share([ok for ok, truth in zip(right, truths, strict=True) if not truth]),
        parsed=share(parsed),
        refined=share(refined),
    )


def _is_true_remedy(drawn: DrawnImage, prompt: str) -> bool:
    """Return whether a refined prompt asks for the same edit, with clauses that are all true."""
    found = read_prompt(prompt)
    return (
        found is not None
        and found[0] == drawn.edit
        and all(clause.holds(drawn.expected) for clause in found[1])
    )


def time_stories(planner: Planner, critic: Critic, generator: TinyWorldGenerator, seed: int) -> list[float]:
    """Return the sorted times, in seconds, of TIMED_STORIES stories with four steps and five attempts.

    Planning is included.
    """
    rng = Random(f"time/{seed}")
    seconds = []
    for number in range(TIMED_STORIES):
        request = request_of(random_story(rng, "evaluate", steps=4))
        started = time.monotonic()
        list(
            run(request, Collaborators(planner, generator, critic), RunSettings(max_attempts=5, seed=number))
        )
        seconds.append(time.monotonic() - started)
    return sorted(seconds)


class TinyWorldReport(BaseModel):
    """All measurements, the sorted seconds of four-step stories, and the duration of the evaluation."""

    planner: PlannerMeasure
    critic: CriticMeasure
    stories: StoryMeasure
    four_steps: list[float]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return flat keys for tables and scripts: shares as rates, with their intervals next to them."""
        critic = self.critic
        flat: dict[str, Any] = {"planner.exact": self.planner.exact.rate}
        flat |= {f"critic.{name}": getattr(critic, name).rate for name in type(critic).model_fields}
        flat["stories.success"] = {str(a): s.model_dump() for a, s in self.stories.stories.items()}
        flat["steps.success"] = {str(a): s.model_dump() for a, s in self.stories.steps.items()}
        flat["draws_a_step"] = {str(a): value for a, value in self.stories.draws.items()}
        flat["seconds_a_story"] = {str(a): value for a, value in self.stories.seconds.items()}
        flat["intervals"] = {"planner.exact": self.planner.exact.model_dump()}
        flat["intervals"] |= {
            f"critic.{n}": getattr(critic, n).model_dump() for n in type(critic).model_fields
        }
        flat["seconds_four_steps"] = {
            "median": self.four_steps[len(self.four_steps) // 2],
            "max": self.four_steps[-1],
        }
        flat["seconds"] = self.seconds
        return flat


@dataclass(frozen=True)
class EvaluationSettings:
    """Size of the evaluation: number of requests, seed of requests and images, and numbers of attempts."""

    stories: int
    seed: int
    max_attempts: Sequence[int]


def evaluate(
    planner: Planner,
    critic: Critic,
    generator: TinyWorldGenerator,
    settings: EvaluationSettings,
    log: Log = print,
) -> TinyWorldReport:
    """Measure the planner and stories on new requests, and the critic on the same number (at least 400)."""
    started, seed = time.monotonic(), settings.seed
    rng = Random(f"evaluate/{seed}")
    asked = [random_story(rng, "evaluate") for _ in range(settings.stories)]
    planned, plans = measure_planner(planner, asked)
    log(f"planner: exact plans {planned.exact}")
    judged = measure_critic(critic, balanced(generator.pipeline, max(400, settings.stories), 10**6 + seed))
    log(f"critic: accuracy {judged.accuracy}")
    outcomes = run_stories(asked, plans, generator, critic, StoryRuns(settings.max_attempts), log)
    four_steps = time_stories(planner, critic, generator, seed)
    return TinyWorldReport(
        planner=planned,
        critic=judged,
        stories=measure_stories(outcomes),
        four_steps=four_steps,
        seconds=time.monotonic() - started,
    )

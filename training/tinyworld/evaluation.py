"""Measures the tiny world on requests that were never trained on: planner, critic, and whole stories.

Decisions. Stories run through the same loop as everybody's, and a story counts only if every page shows
exactly what the request asked for, so a wrong plan or a mistake that is kept costs the story. The critic is
asked about the generator's real pages, as many right as wrong ones. Runs with different numbers of attempts
share their draws, which are equal anyway as long as they have not parted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import BaseModel

from ...backend.agents.critic import Critic
from ...backend.agents.planner import Planner
from ...backend.errors import AnswerError
from ...backend.journal.store import InMemoryStore
from ...backend.loop.events import Finished
from ...backend.loop.loop import run
from ...backend.loop.policy import SeedRule
from ...backend.loop.protocols import CriticLike
from ...backend.tinyworld.drawing import draw
from ...backend.tinyworld.generator import TinyWorldGenerator
from ...backend.tinyworld.reading import read_page
from ...backend.tinyworld.scorer import faults
from ...backend.tinyworld.wording import edit_text, prompt_text, read_prompt
from ...backend.types import Plan, Request, RunSettings, Trajectory
from ..evaluation.intervals import Share, share
from .data.judged_pages import Drawn, balanced
from .data.requests import Story, random_story

Log = Callable[[str], None]
TIMED_STORIES = 9


class PlannerMeasure(BaseModel):
    """`exact`: requests whose plan is the right one in every step's number, name, instruction, prompt and
    text."""

    exact: Share


class CriticMeasure(BaseModel):
    """On a balanced set of real pages: right verdicts, by truth; `parsed`: answers that could be read at
    all."""

    accuracy: Share
    true_recall: Share
    false_recall: Share
    parsed: Share
    refined: Share


class StoryMeasure(BaseModel):
    """By attempts allowed: stories and steps that came out right, images drawn a step, seconds a story."""

    stories: dict[int, Share]
    steps: dict[int, Share]
    draws: dict[int, float]
    seconds: dict[int, float]


def request_of(story: Story) -> Request:
    """The request as a user would make it."""
    return Request(text=story.text, images=(draw(story.before),) if story.before else ())


def measure_planner(planner: Planner, stories: Sequence[Story]) -> tuple[PlannerMeasure, list[Plan | None]]:
    """Plan every story once; the plans are given back for the stories' runs (None: no readable answer)."""
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


def measure_critic(critic: Critic, pages: Sequence[Drawn]) -> CriticMeasure:
    """Ask the critic about every page."""
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


def _is_true_remedy(drawn: Drawn, prompt: str) -> bool:
    """Whether a refined prompt asks for the same edit, with clauses that are all true of the right page."""
    found = read_prompt(prompt)
    return (
        found is not None
        and found[0] == drawn.edit
        and all(clause.holds(drawn.expected) for clause in found[1])
    )


class StoryOutcome(BaseModel):
    """How one story came out: whether every page is right, and for each drawn step whether its page is;
    images drawn, and the seconds they took."""

    right: bool
    steps: list[bool]
    draws: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class StoryRuns:
    """How stories are run: with each of these numbers of attempts, by this seed rule."""

    max_attempts: Sequence[int]
    seed_rule: SeedRule = "every try"
    candidates: int = 1

    def settings(self, attempts: int, seed: int) -> RunSettings:
        """The loop's settings for one run of one story."""
        return RunSettings(
            max_attempts=attempts, seed=seed, seed_rule=self.seed_rule, candidates=self.candidates
        )


def run_stories(
    stories: Sequence[Story],
    plans: Sequence[Plan | None],
    generator: TinyWorldGenerator,
    critic: CriticLike,
    runs: StoryRuns,
    log: Log,
) -> dict[int, list[StoryOutcome]]:
    """Run every story with every number of attempts; a story without a plan is not right, nor is any of its
    steps."""
    outcomes: dict[int, list[StoryOutcome]] = {attempts: [] for attempts in runs.max_attempts}
    for number, (story, plan) in enumerate(zip(stories, plans, strict=True)):
        store = InMemoryStore()
        for attempts in runs.max_attempts:
            if plan is None:
                outcomes[attempts].append(StoryOutcome(right=False, steps=[False] * len(story.pages)))
                continue
            settings = runs.settings(attempts, number)
            trajectory = _run_story(request_of(story), plan, generator, critic, settings, store)
            made = [attempt for result in trajectory.results for attempt in result.attempts]
            outcomes[attempts].append(
                StoryOutcome(
                    right=_is_right(trajectory, story),
                    steps=right_steps(trajectory),
                    draws=len(made),
                    seconds=sum(attempt.seconds for attempt in made),
                )
            )
        if (number + 1) % 50 == 0:
            shares = (f"{a}: {share([one.right for one in outcomes[a]])}" for a in outcomes)
            log(f"{number + 1}/{len(stories)} stories: " + ", ".join(shares))
    return outcomes


def measure_stories(outcomes: Mapping[int, Sequence[StoryOutcome]]) -> StoryMeasure:
    """Shares and means by number of attempts."""
    steps = {attempts: [right for one in ones for right in one.steps] for attempts, ones in outcomes.items()}
    return StoryMeasure(
        stories={attempts: share([one.right for one in ones]) for attempts, ones in outcomes.items()},
        steps={attempts: share(right) for attempts, right in steps.items()},
        draws={a: sum(one.draws for one in ones) / max(1, len(steps[a])) for a, ones in outcomes.items()},
        seconds={a: sum(one.seconds for one in ones) / max(1, len(ones)) for a, ones in outcomes.items()},
    )


def _run_story(
    request: Request,
    plan: Plan,
    generator: TinyWorldGenerator,
    critic: CriticLike,
    settings: RunSettings,
    store: InMemoryStore,
) -> Trajectory:
    for event in run(request, None, generator, critic, settings, store, plan=plan):
        if isinstance(event, Finished):
            return event.trajectory
    raise AssertionError("a run ends with Finished")


def _is_right(trajectory: Trajectory, story: Story) -> bool:
    pages = [result.image for result in trajectory.results if result.step.prompt]
    return len(pages) == len(story.pages) and all(
        page is not None and not faults(scene, read_page(page))
        for page, scene in zip(pages, story.pages, strict=True)
    )


def right_steps(trajectory: Trajectory) -> list[bool]:
    """For each drawn step, whether its page is what its own prompt makes of its own source."""
    from ...backend.errors import ScorerError
    from ...backend.tinyworld.scorer import TinyWorldScorer

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


def time_stories(planner: Planner, critic: Critic, generator: TinyWorldGenerator, seed: int) -> list[float]:
    """Wall seconds, in rising order, of TIMED_STORIES stories of four drawn steps with five attempts,
    planning included."""
    rng = Random(f"time/{seed}")
    seconds = []
    for number in range(TIMED_STORIES):
        request = request_of(random_story(rng, "evaluate", steps=4))
        started = time.monotonic()
        list(run(request, planner, generator, critic, RunSettings(max_attempts=5, seed=number)))
        seconds.append(time.monotonic() - started)
    return sorted(seconds)


class TinyWorldReport(BaseModel):
    """All measures, the seconds of four-step stories in rising order, and the wall seconds of measuring."""

    planner: PlannerMeasure
    critic: CriticMeasure
    stories: StoryMeasure
    four_steps: list[float]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Flat keys for tables and scripts; shares as rates, with their intervals beside them."""
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
class Evaluation:
    """How much is measured: requests, their seed and that of the pages, and numbers of attempts."""

    stories: int
    seed: int
    max_attempts: Sequence[int]


def evaluate(
    planner: Planner,
    critic: Critic,
    generator: TinyWorldGenerator,
    settings: Evaluation,
    log: Log = print,
) -> TinyWorldReport:
    """Measure everything on the stories' requests, and the critic on as many pages (at least 400)."""
    started, seed = time.monotonic(), settings.seed
    rng = Random(f"evaluate/{seed}")
    asked = [random_story(rng, "evaluate") for _ in range(settings.stories)]
    planned, plans = measure_planner(planner, asked)
    log(f"planner exact {planned.exact}")
    judged = measure_critic(critic, balanced(generator.pipeline, max(400, settings.stories), 10**6 + seed))
    log(f"critic accuracy {judged.accuracy}")
    outcomes = run_stories(asked, plans, generator, critic, StoryRuns(settings.max_attempts), log)
    four_steps = time_stories(planner, critic, generator, seed)
    return TinyWorldReport(
        planner=planned,
        critic=judged,
        stories=measure_stories(outcomes),
        four_steps=four_steps,
        seconds=time.monotonic() - started,
    )

"""Measuring jobs of the ablation: run stories, judge images.

Outcomes are stored individually and not as shares, so that rows can be compared on the same stories, images
and seeds. All rows of a seed run the same stories. Every attempt has a new seed, which is the default for
users. The generator repeats its mistakes with every seed until the prompt is explicit, so prompts are what is
measured. Stories run in parallel (stories.py) through the regular loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

from pydantic import BaseModel

from ....backend.core.errors import AnswerError, TrainingError
from ....backend.core.files.atomic import write_text
from ....backend.core.types import Plan, Step, Verdict
from ....tinyworld.generator import TinyWorldGenerator
from ....tinyworld.oracle import drawn_of, verdict_of
from ....training.rows.rl import CriticRlRow, read_rl_rows
from ....training.statistics import share
from ..data.critic_rows import RL_FILE
from ..stories import (
    BatchedAgent,
    BatchedTasks,
    Judging,
    SharedCritic,
    SharedGenerator,
    StoryOutcome,
    drawing,
    request_of,
    run_story,
)
from ..world.requests import TinyStory, random_story
from .training import JUDGED, AblationSettings, agent_in, open_generator

STORIES_SEED = 77_000
UNTRAINED_TOKENS = 200
MEASURED = "measured.json"
PLANS = "plans.json"
ATTEMPTS = 3
"""Attempts per step in the table's main column."""
ALL_ATTEMPTS = (1, ATTEMPTS, 5)
ALONE = (1,)


class StoredVerdicts(BaseModel):
    """Verdicts on a balanced set of generated images (`None`: unreadable), with the truth."""

    said: list[bool | None]
    truth: list[bool]


class RowOutcomes(BaseModel):
    """Outcomes of a row for one seed: stories by number of attempts, and its critic's verdicts, if any."""

    told: dict[int, list[StoryOutcome]]
    judged: StoredVerdicts | None = None


JudgeFunction = Callable[[Sequence[Judging]], Sequence[Verdict]]


def stories_of(settings: AblationSettings, seed: int) -> list[TinyStory]:
    """Return the stories that all rows of a seed run. Their requests were not used in training."""
    rng = Random(f"ablation/{STORIES_SEED + seed}")
    return [random_story(rng, "evaluate") for _ in range(settings.stories)]


def plan_stories(folder: Path, settings: AblationSettings, seed: int, planner: Path) -> None:
    """Plan this seed's stories once, for all rows that share the planner."""
    stories = stories_of(settings, seed)
    plans = _readable(agent_in(planner, settings).plan([request_of(story) for story in stories]))
    exact = [
        plan is not None and plan.steps == story.plan.steps
        for plan, story in zip(plans, stories, strict=True)
    ]
    written = [plan.model_dump(mode="json") if plan else None for plan in plans]
    text = json.dumps({"exact": share(exact).model_dump(), "plans": written})
    write_text(folder / PLANS, text, TrainingError, "Plans")


def _readable(plans: Sequence[Plan | AnswerError]) -> list[Plan | None]:
    return [plan if isinstance(plan, Plan) else None for plan in plans]


def exact_plans(folder: Path) -> float:
    """Return the share of exact plans of a planning job."""
    return json.loads((folder / PLANS).read_text(encoding="utf-8"))["exact"]["rate"]


def measure_agents(
    folder: Path,
    settings: AblationSettings,
    seed: int,
    plans: Path | None,
    critic: Path | None,
    counts: tuple[int, ...],
) -> None:
    """Run stories, and measure the critic's verdicts on the images of the seed's job `pages`.

    The plans are those of a planning job (`None`: the stories' own), the critic is a checkpoint (`None`: the
    oracle), and `counts` are numbers of attempts.
    """
    stories = stories_of(settings, seed)
    written = None
    if plans is not None:
        written = json.loads((plans / PLANS).read_text(encoding="utf-8"))["plans"]
    planned = (
        [story.plan for story in stories]
        if written is None
        else [Plan.model_validate(plan) if plan else None for plan in written]
    )
    agent = agent_in(critic, settings) if critic is not None else None
    judge = agent.judge if agent is not None else oracle_verdicts
    judged = _judged(agent, folder.parent / "pages" / JUDGED) if agent is not None else None
    _keep(folder, RowOutcomes(told=run_stories_together(stories, planned, judge, counts), judged=judged))


def measure_alone(folder: Path, settings: AblationSettings, seed: int) -> None:
    """Measure the generator alone: each step's phrase in the request is used as a prompt, for one attempt."""
    stories = stories_of(settings, seed)
    _keep(
        folder,
        RowOutcomes(
            told=run_stories_together(stories, [plan_from_phrases(story) for story in stories], None, ALONE)
        ),
    )


def plan_from_phrases(story: TinyStory) -> Plan:
    """Build a plan whose prompts are the phrases of the request for the steps with an image."""
    drawn = [
        text for text, step in zip(story.phrases, story.plan.steps, strict=True) if step.prompt is not None
    ]
    return Plan(
        steps=tuple(Step(number=number, name="phrase", prompt=text) for number, text in enumerate(drawn, 1))
    )


def measure_untrained(folder: Path, settings: AblationSettings, seed: int, agent: Path) -> None:
    """Measure both agents with the weights before training, on the first stories only.

    Plans are cut off earlier than those of trained agents, and unreadable plans are not requested again.
    """
    stories = stories_of(settings, seed)[: settings.untrained_stories]
    base = BatchedAgent(agent, settings.verdict_tokens, min(settings.plan_tokens, UNTRAINED_TOKENS))
    plans = _readable(base.plan([request_of(story) for story in stories], again=False))
    _keep(folder, RowOutcomes(told=run_stories_together(stories, plans, base.judge, (ATTEMPTS,))))


def run_stories_together(
    stories: Sequence[TinyStory],
    plans: Sequence[Plan | None],
    judge: JudgeFunction | None,
    counts: tuple[int, ...],
) -> dict[int, list[StoryOutcome]]:
    """Run stories with these plans.

    Args:
        stories: The stories.
        plans: A plan per story; `None` counts as lost.
        judge: The critic; without one, each step has one attempt.
        counts: Numbers of attempts.

    Returns:
        Outcomes by number of attempts.
    """
    together = _batched_tasks(judge or oracle_verdicts)
    generator = SharedGenerator(together, "tinyworld")
    critic = SharedCritic(together, "critic") if judge is not None else None
    tasks = [
        partial(run_story, number, story, plan, generator, critic, counts)
        for number, (story, plan) in enumerate(zip(stories, plans, strict=True))
    ]
    outcomes = together.run(tasks)
    return {attempts: [one[attempts] for one in outcomes] for attempts in counts}


def _batched_tasks(judge: JudgeFunction) -> BatchedTasks:
    generator = TinyWorldGenerator(open_generator(), "tinyworld")
    return BatchedTasks({"draw": drawing(generator), "judge": judge})


def oracle_verdicts(pages: Sequence[Judging]) -> list[Verdict]:
    """Return the oracle's verdicts. If it cannot judge an image, it rejects it without a better prompt."""
    verdicts = []
    for before, after, original, used in pages:
        drawn = drawn_of(before, after, original, used)
        verdicts.append(
            verdict_of(drawn) if drawn is not None else Verdict(success=False, refined_prompt=used)
        )
    return verdicts


def _judged(agent: BatchedAgent, images: Path) -> StoredVerdicts:
    rows = _pages(images)
    verdicts = agent.verdicts_of(rows, images)
    return StoredVerdicts(
        said=[verdict.success if verdict else None for verdict in verdicts],
        truth=[row.evaluation.success for row in rows],
    )


def _pages(images: Path) -> list[CriticRlRow]:
    return read_rl_rows(images / RL_FILE)[0]


def _keep(folder: Path, measured: BaseModel) -> None:
    write_text(folder / MEASURED, measured.model_dump_json(), TrainingError, "The measurement")


def stored(folder: Path) -> str:
    """Return the stored result of a measuring job, as JSON."""
    return (folder / MEASURED).read_text(encoding="utf-8")

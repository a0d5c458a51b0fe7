"""What each row of the table is measured by: stories run, pages judged, and refined prompts drawn, each a
job.

Decisions. Outcomes are stored one by one, not as shares, so that rows can be compared on the very same
stories, pages and seeds, and shares pooled over seeds with honest intervals. Every row of a seed runs the
same stories with the same seeds. All attempts of a step have one seed, as in the published demo: a page
becomes another only by another prompt, so that what is measured is what the critic says and not how often a
die was thrown. What artists have by default, a new seed for every attempt, is measured beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ....backend.agents.critic import Critic, critic_message
from ....backend.agents.planner import Planner
from ....backend.chat import open_chat
from ....backend.chat.protocol import ChatModel, ReplySettings
from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text
from ....backend.journal.store import InMemoryStore
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet, default_prompt_set, prompt_set_of
from ....backend.tinyworld import checkpoint
from ....backend.tinyworld.generator import TinyWorldGenerator, load_pipeline
from ....backend.tinyworld.reading import read_page, read_pages
from ....backend.tinyworld.scorer import faults
from ....backend.tinyworld.wording import edit_text, prompt_text
from ....backend.types import Plan, RunSettings, Step, Verdict
from ...evaluation.held_out import greedy_answers
from ...reward.terms import read_answer
from ...rows.rl import as_conversation
from ..data.judged_pages import Drawn, balanced, real
from ..data.requests import Story, random_story
from ..evaluation import measure_planner
from ..stories import StoryOutcome, StoryRuns, request_of, run_stories
from . import single_agent

if TYPE_CHECKING:
    from .settings import AblationSettings

STORIES_SEED, JUDGED_SEED, FAILED_SEED = 77_000, 2_000_000, 3_000_000
UNTRAINED_TOKENS = 400
ANSWER_TOKENS = 320
MEASURED = "measured.json"
ATTEMPTS = (1, 3, 5)


class Judged(BaseModel):
    """Verdicts on a balanced set of real pages: what was said (None: unreadable) beside the truth."""

    said: list[bool | None]
    truth: list[bool]


class Measured(BaseModel):
    """A row of one seed: stories by number of attempts, and the critic's verdicts if it has one; `new_seeds`
    are those of three attempts with a new seed for every attempt, as artists' are by default."""

    told: dict[int, list[StoryOutcome]]
    new_seeds: list[StoryOutcome] = []
    judged: Judged | None = None


class Remedies(BaseModel):
    """Failed attempts, one entry each: whether each critic refused it, and whether its prompt was drawn
    right."""

    refused: dict[str, list[bool]]
    drawn_right: dict[str, list[bool]]


class NextSteps(BaseModel):
    """For each story, whether the next step was named rightly after each of its steps; the last is its
    end."""

    right: list[list[bool]]


def _generator() -> TinyWorldGenerator:
    return TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")


def _chat(folder: Path) -> ChatModel:
    return open_chat(f"transformers:{folder}")


def _critic(folder: Path) -> Critic:
    return Critic(_chat(folder), settings=ReplySettings(max_tokens=ANSWER_TOKENS, watch_verdict=True))


def stories_of(settings: AblationSettings, seed: int) -> list[Story]:
    """The stories that all rows of a seed run: requests that no planner was trained on."""
    rng = Random(f"ablation/{STORIES_SEED + seed}")
    return [random_story(rng, "evaluate") for _ in range(settings.stories)]


def plan_stories(folder: Path, settings: AblationSettings, seed: int, planner: Path) -> None:
    """Plan this seed's stories once, for all rows that share the planner."""
    measure, plans = measure_planner(Planner(_chat(planner)), stories_of(settings, seed))
    written = [plan.model_dump(mode="json") if plan else None for plan in plans]
    _write(folder / "plans.json", json.dumps({"exact": measure.exact.model_dump(), "plans": written}))


def _plans(folder: Path) -> list[Plan | None]:
    stored = json.loads((folder / "plans.json").read_text(encoding="utf-8"))["plans"]
    return [Plan.model_validate(plan) if plan else None for plan in stored]


def measure_agents(
    folder: Path, settings: AblationSettings, seed: int, plans: Path, critic: Path, new_seeds: bool
) -> None:
    """Two agents: stories with the plans that were made, and the critic's verdicts."""
    generator, judge = _generator(), _critic(critic)
    asked, planned = stories_of(settings, seed), _plans(plans)
    outcomes = run_stories(asked, planned, generator, judge, StoryRuns(ATTEMPTS, "every step"), _silent)
    new = StoryRuns((3,))
    lucky = run_stories(asked, planned, generator, judge, new, _silent)[3] if new_seeds else []
    judged = _judged(generator, critic, settings, seed)
    _measured(folder, Measured(told=outcomes, judged=judged, new_seeds=lucky))


def measure_alone(folder: Path, settings: AblationSettings, seed: int, critic: Path) -> None:
    """The generator alone: each sentence of the request is a prompt, drawn once (the critic is never
    asked)."""
    stories = stories_of(settings, seed)
    plans = [_sentences(story) for story in stories]
    outcomes = run_stories(stories, plans, _generator(), _critic(critic), StoryRuns((1,)), _silent)
    _measured(folder, Measured(told=outcomes))


def measure_untrained(
    folder: Path, settings: AblationSettings, seed: int, planner: Path, critic: Path
) -> None:
    """Agents with the weights that training starts from: what they write is no plan, and no story comes of
    it."""
    stories = stories_of(settings, seed)[: settings.untrained_stories]
    short = ReplySettings(max_tokens=UNTRAINED_TOKENS)
    _, plans = measure_planner(Planner(_chat(planner), settings=short), stories)
    outcomes = run_stories(stories, plans, _generator(), _critic(critic), StoryRuns((3,)), _silent)
    _measured(folder, Measured(told=outcomes))


def measure_single_agent(folder: Path, settings: AblationSettings, seed: int, agent: Path) -> None:
    """One shared agent that plans while it looks."""
    chat = _chat(agent)
    planner, judge, generator = Planner(chat), Critic(chat), _generator()
    outcomes: dict[int, list[StoryOutcome]] = {attempts: [] for attempts in ATTEMPTS}
    for number, story in enumerate(stories_of(settings, seed)):
        store = InMemoryStore()
        for attempts in ATTEMPTS:
            run = RunSettings(max_attempts=attempts, seed=number, seed_rule="every step")
            pages, draws = single_agent.run_story(request_of(story), planner, judge, generator, run, store)
            outcomes[attempts].append(_page_by_page(pages, story, draws))
    _measured(folder, Measured(told=outcomes, judged=_judged(generator, agent, settings, seed)))


def measure_next_steps(folder: Path, settings: AblationSettings, seed: int, agent: Path) -> None:
    """The shared agent's next steps where every page so far is right: what it cannot plan even then, no page
    has misled it in."""
    planner = Planner(_chat(agent))
    stories = stories_of(settings, seed)[: settings.next_step_stories]
    right = [single_agent.right_next_steps(story, planner) for story in stories]
    _write(folder / MEASURED, NextSteps(right=right).model_dump_json())


def _page_by_page(pages: Sequence[Picture] | None, story: Story, draws: int) -> StoryOutcome:
    """Steps of an agent without a plan of its own are held against the story's right pages, in order."""
    pages = pages or ()
    right = [not faults(scene, read_page(page)) for scene, page in zip(story.pages, pages, strict=False)]
    right += [False] * (len(story.pages) - len(right))
    return StoryOutcome(right=all(right) and len(pages) == len(story.pages), steps=right, draws=draws)


def measure_remedies(folder: Path, settings: AblationSettings, seed: int, critics: dict[str, Path]) -> None:
    """The refined prompts of several critics for the same failed attempts, drawn with the seeds that these
    had."""
    generator = _generator()
    wrong = (drawn for drawn in real(generator.pipeline, FAILED_SEED + seed) if not drawn.success)
    failed = list(islice(wrong, settings.failed))
    seeds = [one.seed or 0 for one in failed]
    measured = Remedies(refused={}, drawn_right={})
    for name, path in critics.items():
        verdicts = verdicts_of(path, failed)
        prompts = [
            verdict.refined_prompt
            if verdict and verdict.refined_prompt
            else prompt_text(one.edit, one.clauses)
            for verdict, one in zip(verdicts, failed, strict=True)
        ]
        measured.refused[name] = [verdict is not None and not verdict.success for verdict in verdicts]
        measured.drawn_right[name] = _drawn_right(generator, failed, prompts, seeds)
    _write(folder / MEASURED, measured.model_dump_json())


def _drawn_right(
    generator: TinyWorldGenerator, failed: Sequence[Drawn], prompts: Sequence[str], seeds: Sequence[int]
) -> list[bool]:
    right: list[bool] = []
    for start in range(0, len(failed), 64):
        some = failed[start : start + 64]
        pages = generator.draw_many(
            prompts[start : start + 64], [one.before for one in some], seeds[start : start + 64]
        )
        right += [not faults(one.expected, seen) for one, seen in zip(some, read_pages(pages), strict=True)]
    return right


def _judged(generator: TinyWorldGenerator, critic: Path, settings: AblationSettings, seed: int) -> Judged:
    pages = balanced(generator.pipeline, settings.judged, JUDGED_SEED + seed)
    verdicts = verdicts_of(critic, pages)
    return Judged(
        said=[verdict.success if verdict else None for verdict in verdicts],
        truth=[one.success for one in pages],
    )


def verdicts_of(critic: Path, pages: Sequence[Drawn], batch: int = 50) -> list[Verdict | None]:
    """What the critic in a checkpoint folder says of pages, decoded greedily in batches; None: unreadable."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(
        critic, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
    )
    processor = AutoProcessor.from_pretrained(critic, local_files_only=True, trust_remote_code=False)
    prompt_set = prompt_set_of(critic) or default_prompt_set()
    questions = [_question(prompt_set, one) for one in pages]
    answers, _ = greedy_answers(model, processor, questions, ANSWER_TOKENS, batch)
    return [read_answer(answer) for answer in answers]


def _question(prompt_set: PromptSet, drawn: Drawn) -> dict[str, Any]:
    pictures = (drawn.before or Picture.white(drawn.after.size), drawn.after)
    used = prompt_text(drawn.edit, drawn.clauses)
    message = critic_message(prompt_set, pictures, edit_text(drawn.edit), used)
    return {"prompt": as_conversation(message), "images": list(pictures)}


def _sentences(story: Story) -> Plan:
    parts = re.split(r"(?<=[.!?])\s+|;\s+", story.text)
    prompts = [part.strip(" .") for part in parts if part.strip(" .")]
    return Plan(
        steps=tuple(
            Step(number=number, name="sentence", prompt=text) for number, text in enumerate(prompts, 1)
        )
    )


def _measured(folder: Path, measured: Measured) -> None:
    _write(folder / MEASURED, measured.model_dump_json())


def read_measured(folder: Path) -> Measured:
    """What a measuring job found."""
    return Measured.model_validate_json((folder / MEASURED).read_text(encoding="utf-8"))


def read_remedies(folder: Path) -> Remedies:
    """What the comparison of refined prompts found."""
    return Remedies.model_validate_json((folder / MEASURED).read_text(encoding="utf-8"))


def read_next_steps(folder: Path) -> NextSteps:
    """What the job about next steps found."""
    return NextSteps.model_validate_json((folder / MEASURED).read_text(encoding="utf-8"))


def _write(path: Path, text: str) -> None:
    write_text(path, text, TrainingError, "Measure")


def _silent(line: str) -> None:
    """Stories run in many processes at once; their progress is the jobs' own."""

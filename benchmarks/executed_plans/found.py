"""What is measured of a planner, and the tables of all seeds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from pydantic import BaseModel

from interleave_thinker.backend.errors import TrainingError
from interleave_thinker.backend.files.atomic import write_text
from interleave_thinker.backend.types import Plan
from interleave_thinker.tinyworld.lab.ablation.findings import compare, mean_of
from interleave_thinker.tinyworld.lab.ablation.measures import oracle_verdicts, run_stories_together
from interleave_thinker.tinyworld.lab.data.critic_rows import ImageFolder
from interleave_thinker.tinyworld.lab.planning.simulated_world import SimulatedWorld
from interleave_thinker.tinyworld.lab.runs.batched_agents import BatchedAgent
from interleave_thinker.tinyworld.lab.runs.stories import StoryOutcome
from interleave_thinker.tinyworld.lab.world.requests import TinyStory
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.wording import read_prompt
from interleave_thinker.training.data.rows.planner_rl import PlannerRlRow
from interleave_thinker.training.reward.plans.terms import plan_in
from interleave_thinker.training.statistics.bootstrap import Mean

from ..planner_arms import Answering
from .arms import KIND, TOKENS, drawn_scenes, with_clauses

VERDICT_TOKENS = 320
ATTEMPTS = 3
FOUND = "found.json"
LOOPS = ("alone", "critic", "oracle")


class Found(BaseModel):
    """Measures of one seed.

    Attributes:
        exact: Whether each plan is exact.
        prompts: Number of prompts.
        clauses: For each clause in them, whether it is true after its step.
        told: Stories by loop (`alone`: without a critic).
    """

    exact: list[bool]
    prompts: int
    clauses: list[bool]
    told: dict[str, list[StoryOutcome]]


def measure(folder: Path, count: int, seed: int, planner: Path | None, explicit: bool = False) -> None:
    """Run new stories with the plans of a planner, or their own plans (`explicit`: with clauses)."""
    stories = list(islice(KIND.stories(f"executed plans/asked/{seed}", "evaluate"), count))
    plans: list[Plan | None]
    if planner is None:
        plans = [with_clauses(one.plan, one.before, None) if explicit else one.plan for one in stories]
    else:
        pages = ImageFolder(folder / "pages")
        rows = [_row(story, pages) for story in stories]
        plans = [
            plan_in(answer) for answer in Answering(planner / "final").answers(rows, folder, 0.0, TOKENS)
        ]
    world = SimulatedWorld()
    exact = [
        plan is not None and bool(world.score(_row(story), plan, _pictures(story)).exact)
        for story, plan in zip(stories, plans, strict=True)
    ]
    critic = BatchedAgent(checkpoint("critic"), VERDICT_TOKENS, TOKENS)
    judges = {"alone": None, "critic": critic.judge, "oracle": oracle_verdicts}
    told = {}
    for name, judge in judges.items():
        attempts = ATTEMPTS if judge is not None else 1
        told[name] = run_stories_together(stories, plans, judge, (attempts,))[attempts]
    prompts, clauses = clauses_in(stories, plans)
    made = Found(exact=exact, prompts=prompts, clauses=clauses, told=told)
    write_text(folder / FOUND, made.model_dump_json(), TrainingError, "The measurement")


def clauses_in(stories: Sequence[TinyStory], plans: Sequence[Plan | None]) -> tuple[int, list[bool]]:
    """Return the number of readable prompts, and whether each of their clauses is true after its step."""
    prompts, true = 0, []
    for story, plan in zip(stories, plans, strict=True):
        for step, _, after in drawn_scenes(list(plan.steps) if plan else [], story.before):
            prompts += 1
            _, clauses = read_prompt(step.prompt or "") or (None, [])
            true += [clause.holds(after) for clause in clauses]
    return prompts, true


def _row(story: TinyStory, pages: ImageFolder | None = None) -> PlannerRlRow:
    images = [pages.name(draw(story.before))] if pages and story.before is not None else []
    return PlannerRlRow(request=story.text, images=images, reference=list(story.plan.steps))


def _pictures(story: TinyStory) -> list:
    return [draw(story.before)] if story.before is not None else []


def report(found: dict[str, list[Found]], pairs: Sequence[tuple[str, str]]) -> str:
    """Return the tables as Markdown, from the measures of each arm and seed."""
    lines = [
        "| | plans exact | clauses a prompt | of these true | no critic: stories right | images right "
        "| trained critic: stories right | images per step | oracle critic: stories right "
        "| images per step |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for arm, seeds in found.items():
        cells = [arm, _interval(mean_of([seed.exact for seed in seeds]))]
        clauses = [true for seed in seeds for true in seed.clauses]
        cells.append(f"{len(clauses) / sum(seed.prompts for seed in seeds):.2f}")
        cells.append(f"{sum(clauses) / len(clauses):.2f}" if clauses else "-")
        for name in LOOPS:
            told = [[one.right for one in seed.told[name]] for seed in seeds]
            every = [one for seed in seeds for one in seed.told[name]]
            cells.append(_interval(mean_of(told)))
            if name == "alone":
                right = [ok for one in every for ok in one.steps]
                cells.append(f"{sum(right) / len(right):.3f}")
            else:
                cells.append(f"{sum(one.draws for one in every) / sum(len(one.steps) for one in every):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| compared, story by story | difference | by seed | p, stories | p, seeds |"]
    lines.append("|---|---|---|---|---|")
    for name in LOOPS:
        for one, other in pairs:
            ones, others = (
                [[story.right for story in seed.told[name]] for seed in found[arm]] for arm in (one, other)
            )
            result = compare(one, other, ones, others)
            each = " ".join(f"{value:+.3f}" for value in result.of_each_seed)
            cells = [f"{name}: {one} over {other}", _interval(result.difference, "+"), each]
            lines.append(f"| {' | '.join([*cells, f'{result.p_stories:.2g}', f'{result.p_seeds:.2g}'])} |")
    return "\n".join(lines)


def _interval(found: Mean, sign: str = "") -> str:
    return f"{found.mean:{sign}.3f} ({found.low:{sign}.3f} to {found.high:{sign}.3f})"

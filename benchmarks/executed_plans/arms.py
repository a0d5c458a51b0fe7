"""Arms of the comparison: trainings of a planner from one start, each a job of a seed with its folder.

The shipped planner always writes terse prompts, and what is never sampled cannot be reinforced. The start is
therefore fine-tuned on stories in which half of the prompts have one or two random clauses. It knows how to
be explicit, and not when this helps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from interleave_thinker.backend.answers.reading import write_plan
from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.scorers import open_scorer
from interleave_thinker.backend.types import Plan, Step
from interleave_thinker.tinyworld.lab.ablation.stages import log_in
from interleave_thinker.tinyworld.lab.data.critic_rows import ImageFolder, row_of
from interleave_thinker.tinyworld.lab.data.planner_rows import prompt_of
from interleave_thinker.tinyworld.lab.planning.rows import StoryKind, make_planner_rl
from interleave_thinker.tinyworld.lab.planning.simulated_world import SimulatedWorld
from interleave_thinker.tinyworld.lab.world.requests import TinyStory
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.scene import EMPTY, Scene
from interleave_thinker.tinyworld.runtime.wording import clauses_of, prompt_text, read_prompt
from interleave_thinker.training.data.rows.planner_rl import PlannerRlRow, read_planner_rl
from interleave_thinker.training.data.rows.row_sets import RowSet
from interleave_thinker.training.data.rows.sft import SftRow, read_rows, write_rows
from interleave_thinker.training.gate.monitored_run import TrainingData
from interleave_thinker.training.grpo.planner_settings import PlannerGrpoTraining, split_planner_rows
from interleave_thinker.training.grpo.planner_task import PlannerTask
from interleave_thinker.training.grpo.train import train
from interleave_thinker.training.reward.plans.execution import ExecutionSetup
from interleave_thinker.training.reward.plans.execution_settings import ExecutionSettings
from interleave_thinker.training.reward.plans.judging import JudgingSettings, PlanJudging
from interleave_thinker.training.reward.plans.reward import PlanSample, rewarded_samples
from interleave_thinker.training.reward.plans.terms import PlanRewardSettings

from ..planner_arms import GROUP, Answering, best_answers, sft

KIND = StoryKind(2, 4)
TOKENS = 480
DRAW_BATCH = 64
EXPLICIT = 0.5
"""Share of the steps with clauses in the stories of the first fine-tuning."""


@dataclass(frozen=True)
class Scale:
    """Stories of the first training; rollouts, their prompts, steps, rate and temperature of the others."""

    learned: int
    rollouts: int
    prompts: int
    updates: int
    rate: float
    temperature: float

    @property
    def requests(self) -> int:
        """Number of requests of all rollouts."""
        return self.rollouts * self.prompts


def drawn_scenes(steps: list[Step], scene: Scene | None) -> Iterator[tuple[Step, Scene | None, Scene]]:
    """Yield the steps with an image, and the right scenes before and after each."""
    for step in steps:
        found = read_prompt(step.prompt) if step.prompt else None
        if found is not None:
            after = found[0].apply(scene)  # pyright: ignore[reportArgumentType]
            yield step, scene, after
            scene = after


def with_clauses(plan: Plan, scene: Scene | None, choose: Random | None) -> Plan:
    """Return a plan with clauses about cells in its prompts.

    With `choose` half of the steps have clauses about one or two random cells of those that they change.
    Without it every step has clauses about the first three of these cells.
    """
    explicit = {}
    for step, before, after in drawn_scenes(list(plan.steps), scene):
        old = before.cells if before else (EMPTY,) * 9
        changed = [cell for cell in range(9) if old[cell] != after.cells[cell]]
        cells = changed[:3]
        if choose is not None:
            count = choose.choice((1, 2)) if choose.random() < EXPLICIT else 0
            cells = sorted(choose.sample(changed, min(count, len(changed))))
        edit, _ = read_prompt(step.prompt or "") or (None, ())
        assert edit is not None
        prompt = prompt_text(edit, clauses_of(after, cells))
        explicit[step.number] = step.model_copy(update={"prompt": prompt})
    return plan.model_copy(update={"steps": tuple(explicit.get(step.number, step) for step in plan.steps)})


def start(folder: Path, scale: Scale, seed: int) -> None:
    """Fine-tune the shipped planner on stories with random clauses."""
    pages, choose = ImageFolder(folder / "pages"), Random(f"clauses/{seed}")
    stories = KIND.stories(f"executed plans/start/{seed}", "train")
    rows = [_explicit_row(next(stories), pages, choose) for _ in range(scale.learned)]
    sft(checkpoint("planner"), RowSet(rows, folder), folder, 1e-3, seed)


def _explicit_row(story: TinyStory, pages: ImageFolder, choose: Random) -> SftRow:
    told = replace(story, plan=with_clauses(story.plan, story.before, choose))
    images = [pages.name(draw(story.before))] if story.before is not None else []
    return row_of(prompt_of(told), write_plan(told.plan), images)


def requests(folder: Path, scale: Scale, seed: int) -> None:
    """Write the requests of reinforcement and rejection sampling."""
    make_planner_rl(folder, scale.requests + 64, seed, KIND)


def reinforce(folder: Path, scale: Scale, seed: int, begin: Path, rows: Path, executed: bool) -> None:
    """Train with GRPO, with or without execution."""
    settings = PlannerGrpoTraining(
        learning_rate=scale.rate, weight_decay=0.01, temperature=scale.temperature, prompts=scale.prompts,
        num_generations=GROUP, updates=scale.updates, per_device_train_batch_size=32, rollouts=scale.rollouts,
        max_completion_length=TOKENS, device="cpu", save_dtype="float16", freeze_vision=False,
        save_every=max(1, scale.rollouts // 4), check_rows=48, check_batch=48, tensorboard=False, seed=seed,
    )  # fmt: skip
    path = rows / "planner_rl.jsonl"
    trained, held = split_planner_rows(read_planner_rl(path)[0], settings)
    execution = execution_setup() if executed else None
    task = PlannerTask(SimulatedWorld(), PlanRewardSettings(), JudgingSettings(), rows, execution)
    data = TrainingData(trained, held, rows)
    train(begin / "final", data, folder, settings, task, log_in(folder))


def execution_setup() -> ExecutionSetup:
    """Return the tiny world's generator and exact scorer as what executes plans."""
    settings = ExecutionSettings(draw_batch=DRAW_BATCH)
    return ExecutionSetup(open_generator("tinyworld"), open_scorer("tinyworld"), settings)


def rejection(folder: Path, scale: Scale, seed: int, begin: Path, rows: Path) -> None:
    """Fine-tune on the best of eight own plans for each request, by the reward with images."""
    import asyncio

    import torch

    torch.manual_seed(seed)
    asked = read_planner_rl(rows / "planner_rl.jsonl")[0][: scale.requests]
    terms, judging = PlanRewardSettings(), PlanJudging(SimulatedWorld(), JudgingSettings())
    execution = execution_setup().open(folder, JudgingSettings(), seed)

    def rewarded(answers: list[str], some: list[PlannerRlRow]) -> list[PlanSample]:
        return asyncio.run(rewarded_samples(answers, some, judging, terms, rows, execution))[0]

    best = best_answers(Answering(begin / "final"), asked, rows, rewarded, scale.temperature, TOKENS)
    path = rows.parent / f"{folder.name}.rows.json"
    write_rows(path, best)
    sft(begin / "final", RowSet(read_rows(path), rows.parent), folder, 3e-4, seed)

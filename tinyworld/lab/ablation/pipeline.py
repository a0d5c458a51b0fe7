"""Jobs of the ablation in order: what is trained for each seed, and how each row of the table is measured.

The rows of the table are defined only here, each with its baseline and the paper's figure. Jobs are sorted by
seed, so that a stopped ablation has complete seeds. The longest pipeline of a seed comes first, so that two
processes finish at about the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..job_runner import LabJob
from . import measures, stages, start
from .settings import AblationSettings


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    Attributes:
        title: Title in the table.
        baseline: Row that it is compared with.
        published: Average in the paper's Table 5; `None` if it has no such row.
        judged_by_plan: Whether each step is judged by its own prompt from a plan, so that shares of correct
            steps can be compared.
    """

    title: str
    baseline: str | None = None
    published: float | None = None
    judged_by_plan: bool = True


ROWS = {
    "alone": TableRow("generator alone, the request's own words", None, 18.2, False),
    "untrained": TableRow("+ untrained planner and critic", "alone", 48.1),
    "planner_sft": TableRow("planner SFT, critic of rendered pages only", "untrained", 60.5),
    "agent_plans": TableRow("one agent for both, writing whole plans", "sft", 54.5),
    "agent_steps": TableRow("one agent for both, next steps while looking", "sft", 54.5, False),
    "unfiltered": TableRow("planner SFT, critic SFT on unfiltered data", "sft", 62.8),
    "sft": TableRow("full SFT", "planner_sft", 64.5),
    "rl_no_step": TableRow("RL without step reward", "sft", 65.2),
    "rl_no_accuracy": TableRow("RL without accuracy reward", "sft", 65.1),
    "rl": TableRow("full RL (published reward)", "sft", 66.3),
    "oracle_planner": TableRow("the story's own plan, critic of full RL", "rl"),
    "oracle_critic": TableRow("planner SFT, oracle critic", "rl"),
}
"""Rows of the table, by the name of the measurement."""
PUBLISHED_ATTEMPTS = {1: 60.2, 3: 65.3, 5: 66.3}
"""The paper's averages by attempts per step, for full RL."""
REINFORCED: dict[str, stages.Remaining] = {
    "rl": "all",
    "rl_no_step": "no step reward",
    "rl_no_accuracy": "no accuracy reward",
}
MEASURED = "measured_"
"""Prefix of the folders of measuring jobs."""
ROWS_WITH_ALL_ATTEMPTS = ("sft", "rl")
"""Rows that are also run with other numbers of attempts."""
PIPELINE = ("planner", "critic", "pages", "rl")
"""The jobs of a seed that produce the planner and critic for use."""


def seed_folder(out: Path, seed: int) -> Path:
    """Return the folder of a seed's jobs."""
    return out / f"seed_{seed}"


def all_jobs(out: Path, settings: AblationSettings) -> list[LabJob]:
    """Return every job of every seed."""
    base, novice = out / "shared" / "base", out / "shared" / "novice"
    every = settings.workers
    jobs = [
        LabJob(base, start.base, (settings,), threads=every),
        LabJob(novice, start.novice, (settings, base), (base,), every),
    ]
    if settings.start is not None:
        jobs = [LabJob(one, start.given, (settings.start / one.name,)) for one in (base, novice)]
    for seed in settings.all_seeds:
        jobs += _of_seed(seed_folder(out, seed), (base, novice), settings, seed)
    return jobs


def _of_seed(
    folder: Path, shared: tuple[Path, Path], settings: AblationSettings, seed: int
) -> Sequence[LabJob]:
    base, novice = shared
    planner, critic, agent = folder / "planner", folder / "critic", folder / "one_agent"
    plain, pages = folder / "critic_unfiltered", folder / "pages"
    plans, agent_plans = folder / "plans", folder / "agent_plans"
    critics = {"planner_sft": novice, "unfiltered": plain, "sft": critic}
    jobs = [
        LabJob(critic, stages.critic, (settings, seed, novice, True), (novice,)),
        LabJob(pages, stages.pages, (settings, seed)),
        LabJob(planner, stages.planner, (settings, seed, novice), (novice,)),
        LabJob(plans, measures.plan_stories, (settings, seed, stages.final(planner)), (planner,)),
    ]
    for name, remaining in REINFORCED.items():
        critics[name] = folder / name
        work = (settings, seed, critic, pages, remaining)
        jobs.append(LabJob(folder / name, stages.reinforced, work, (critic, pages)))
    jobs += [
        LabJob(plain, stages.critic, (settings, seed, novice, False), (novice,)),
        LabJob(
            agent,
            stages.one_agent,
            (settings, seed, novice, planner, critic),
            (novice, planner, critic),
        ),
        LabJob(agent_plans, measures.plan_stories, (settings, seed, stages.final(agent)), (agent,)),
    ]
    told = {name: (plans, made) for name, made in critics.items()}
    told |= {
        "agent_plans": (agent_plans, agent),
        "oracle_planner": (None, folder / "rl"),
        "oracle_critic": (plans, None),
    }
    jobs += [_story_job(folder, name, (settings, seed), *parts) for name, parts in told.items()]
    compared = {name: folder / name for name in REINFORCED} | {"sft": critic}
    one, finals = stages.final(agent), {name: stages.final(made) for name, made in compared.items()}
    return [
        *jobs,
        LabJob(
            measured(folder, "agent_steps"), measures.measure_step_by_step, (settings, seed, one), (agent,)
        ),
        LabJob(measured(folder, "next_steps"), measures.measure_next_steps, (settings, seed, one), (agent,)),
        LabJob(measured(folder, "alone"), measures.measure_alone, (settings, seed)),
        LabJob(
            measured(folder, "untrained"),
            measures.measure_untrained,
            (settings, seed, stages.final(base)),
            (base,),
        ),
        LabJob(
            measured(folder, "remedies"),
            measures.measure_remedies,
            (settings, seed, finals),
            (pages, *compared.values()),
        ),
    ]


def _story_job(
    folder: Path, name: str, asked: tuple[AblationSettings, int], plans: Path | None, critic: Path | None
) -> LabJob:
    """Return a job that runs stories.

    Args:
        folder: Folder of the seed.
        name: Name of the measurement.
        asked: Settings and seed.
        plans: Planning job; `None` uses the stories' own plans.
        critic: Training job of the critic; `None` uses the oracle.
    """
    tries = measures.ALL_ATTEMPTS if name in ROWS_WITH_ALL_ATTEMPTS else (measures.ATTEMPTS,)
    checkpoint = stages.final(critic) if critic is not None else None
    needs = [folder / "pages", *(part for part in (plans, critic) if part is not None)]
    work = (*asked, plans, checkpoint, tries)
    return LabJob(measured(folder, name), measures.measure_agents, work, tuple(needs))


def measured(folder: Path, name: str) -> Path:
    """Return the folder of a seed's measuring job."""
    return folder / f"{MEASURED}{name}"

"""The ablation's jobs in their order: what is trained for each seed, and what each row of the table is
measured on.

Decision: the rows of the table are named here and nowhere else. Jobs of one seed stand before those of the
next, so that a stopped ablation has whole seeds; the longest pipeline of a seed stands first, so that two
processes end at about the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from . import measures, stages
from .job_runner import Job
from .settings import AblationSettings

ROWS = {
    "alone": "generator alone, sentence by sentence",
    "untrained": "+ untrained planner and critic",
    "planner_sft": "+ planner SFT, critic of rendered pages only",
    "unfiltered": "planner SFT, critic SFT on unfiltered data",
    "entangled": "one shared agent, planning as it looks",
    "sft": "full SFT",
    "rl_no_step": "RL without step reward",
    "rl_no_accuracy": "RL without accuracy reward",
    "rl": "full RL (published reward)",
    "rl_refused": "full RL, refused right pages redrawn too",
}
"""Rows of the table, by the name of what is measured."""
REINFORCED: dict[str, stages.Remaining] = {
    "rl": "all",
    "rl_no_step": "no step reward",
    "rl_no_accuracy": "no accuracy reward",
    "rl_refused": "refused redrawn",
}
NEW_SEEDS = ("sft", "rl")
"""Rows that are run with a new seed for every attempt as well."""
PIPELINE = ("planner", "critic", "rl_rows", "rl")
"""The jobs of a seed that make planner and critic as they would be used."""


def seed_folder(out: Path, seed: int) -> Path:
    """Where the jobs of a seed lie."""
    return out / f"seed_{seed}"


def all_jobs(out: Path, settings: AblationSettings) -> list[Job]:
    """Every job of every seed."""
    base = out / "shared" / "base"
    jobs = [Job(base, stages.base, (settings,))]
    for seed in range(settings.seeds):
        jobs += _of_seed(seed_folder(out, seed), base, settings, seed)
    return jobs


def _of_seed(folder: Path, base: Path, settings: AblationSettings, seed: int) -> Sequence[Job]:
    planner, critic, plain = folder / "planner", folder / "critic", folder / "critic_unfiltered"
    agent, data, plans = folder / "entangled", folder / "rl_rows", folder / "plans"
    critics = {"planner_sft": base, "unfiltered": plain, "sft": critic}
    jobs = [
        Job(planner, stages.planner, (settings, seed)),
        Job(critic, stages.critic, (settings, seed, base, True), (base,)),
        Job(data, stages.rl_rows, (settings, seed)),
    ]
    for name, remaining in REINFORCED.items():
        critics[name] = folder / name
        work = (settings, seed, critic, data, remaining)
        jobs.append(Job(folder / name, stages.reinforced, work, (critic, data)))
    jobs += [
        Job(plain, stages.critic, (settings, seed, base, False), (base,)),
        Job(agent, stages.single_agent, (settings, seed, base, critic), (base, critic)),
        Job(plans, measures.plan_stories, (settings, seed, stages.final(planner)), (planner,)),
    ]
    for name, trained in critics.items():
        work = (settings, seed, plans, stages.final(trained), name in NEW_SEEDS)
        jobs.append(Job(measured(folder, name), measures.measure_agents, work, (plans, trained)))
    shared = (settings, seed, stages.final(agent))
    raw = (settings, seed, planner / "untrained", base / "untrained")
    compared = {name: stages.final(folder / name) for name in REINFORCED} | {"sft": stages.final(critic)}
    return [
        *jobs,
        Job(measured(folder, "entangled"), measures.measure_single_agent, shared, (agent,)),
        Job(measured(folder, "next_steps"), measures.measure_next_steps, shared, (agent,)),
        Job(measured(folder, "alone"), measures.measure_alone, (settings, seed, stages.final(base)), (base,)),
        Job(measured(folder, "untrained"), measures.measure_untrained, raw, (planner, base)),
        Job(
            measured(folder, "remedies"),
            measures.measure_remedies,
            (settings, seed, compared),
            (critic, *(folder / name for name in REINFORCED)),
        ),
    ]


def measured(folder: Path, name: str) -> Path:
    """The folder of a seed's measuring job."""
    return folder / f"measured_{name}"

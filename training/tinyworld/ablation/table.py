"""What the ablation found, as a table, a plot and JSON: shares pooled over seeds with their intervals, and
paired tests.

Decision: whatever comes out is written, also where it is not as published; claims are computed from outcomes
here, each with its figures, and never worded by hand. Intervals are Wilson's over all stories of all seeds;
the share of each seed stands beside them, since seeds differ by more than stories do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from ...evaluation.intervals import Difference, Share, paired, share
from .job_runner import Job
from .measures import ATTEMPTS, Measured, Remedies, read_measured, read_next_steps, read_remedies
from .pipeline import PIPELINE, ROWS, all_jobs, measured, seed_folder
from .settings import AblationSettings


class Row(BaseModel):
    """A row of the table; shares by number of attempts, those of single seeds at three (at one where there
    are no more), and the critic's verdicts."""

    name: str
    title: str
    stories: dict[int, Share]
    steps: dict[int, Share]
    by_seed: list[float]
    draws: float
    new_seeds: Share | None = None
    accuracy: Share | None = None
    true_recall: Share | None = None
    false_recall: Share | None = None


class Findings(BaseModel):
    """The whole table, the comparisons, the minutes of everything (each job has one core), and how it was
    made."""

    command: str
    commit: str
    settings: AblationSettings
    rows: list[Row]
    rl_over_sft: dict[int, Difference]
    apart_at_three: bool
    two_over_one: Difference
    next_steps_right: Share
    remedies: dict[str, Difference]
    remedies_right: dict[str, Share]
    minutes_in_all: float
    minutes_of_chains: list[float]
    minutes_by_job: dict[str, float]


def collect(out: Path, settings: AblationSettings, command: str, commit: str) -> Findings:
    """Read what all jobs found."""
    folders = [seed_folder(out, seed) for seed in range(settings.seeds)]
    by_row = {name: [read_measured(measured(folder, name)) for folder in folders] for name in ROWS}
    rows = [_row(name, title, by_row[name]) for name, title in ROWS.items()]
    by_name = {row.name: row for row in rows}
    remedies = [read_remedies(measured(folder, "remedies")) for folder in folders]
    sft, rl = by_name["sft"].stories[3], by_name["rl"].stories[3]
    jobs = all_jobs(out, settings)
    return Findings(
        command=command,
        commit=commit,
        settings=settings,
        rows=rows,
        rl_over_sft={a: paired(_right(by_row["rl"], a), _right(by_row["sft"], a)) for a in ATTEMPTS},
        apart_at_three=rl.low > sft.high,
        two_over_one=paired(_right(by_row["sft"], 3), _right(by_row["entangled"], 3)),
        next_steps_right=share([right for f in folders for one in _next_steps(f) for right in one]),
        remedies={name: _compared(remedies, name) for name in remedies[0].refused if name != "sft"},
        remedies_right={
            name: share([right for one in remedies for right in one.drawn_right[name]])
            for name in remedies[0].refused
        },
        minutes_in_all=_minutes(jobs),
        minutes_of_chains=[
            _minutes([job for job in jobs if job.folder.parent == f and job.folder.name in PIPELINE])
            for f in folders
        ],
        minutes_by_job=_by_kind(jobs),
    )


def _next_steps(folder: Path) -> list[list[bool]]:
    return read_next_steps(measured(folder, "next_steps")).right


def _right(seeds: Sequence[Measured], attempts: int) -> list[bool]:
    return [one.right for seed in seeds for one in seed.told[attempts]]


def _row(name: str, title: str, seeds: Sequence[Measured]) -> Row:
    counts = list(seeds[0].told)
    most = 3 if 3 in counts else counts[-1]
    outcomes = [one for seed in seeds for one in seed.told[most]]
    row = Row(
        name=name,
        title=title,
        stories={a: share(_right(seeds, a)) for a in counts},
        steps={a: share([ok for seed in seeds for one in seed.told[a] for ok in one.steps]) for a in counts},
        by_seed=[round(share(_right([seed], most)).rate, 3) for seed in seeds],
        draws=sum(one.draws for one in outcomes) / max(1, sum(len(one.steps) for one in outcomes)),
    )
    lucky = [one.right for seed in seeds for one in seed.new_seeds]
    row.new_seeds = share(lucky) if lucky else None
    judged = [
        (said, truth)
        for seed in seeds
        if seed.judged
        for said, truth in zip(seed.judged.said, seed.judged.truth, strict=True)
    ]
    if judged:
        row.accuracy = share([said == truth for said, truth in judged])
        row.true_recall = share([said is True for said, truth in judged if truth])
        row.false_recall = share([said is False for said, truth in judged if not truth])
    return row


def _compared(remedies: Sequence[Remedies], name: str) -> Difference:
    """The critic's prompts against those of full SFT, on the failed attempts that both refuse."""
    ones, others = [], []
    for seed in remedies:
        both = [a and b for a, b in zip(seed.refused[name], seed.refused["sft"], strict=True)]
        ones += [ok for ok, refused in zip(seed.drawn_right[name], both, strict=True) if refused]
        others += [ok for ok, refused in zip(seed.drawn_right["sft"], both, strict=True) if refused]
    return paired(ones, others)


def _minutes(jobs: Sequence[Job]) -> float:
    return round(sum(job.seconds for job in jobs) / 60, 1)


def _by_kind(jobs: Sequence[Job]) -> dict[str, float]:
    kinds: dict[str, list[Job]] = {}
    for job in jobs:
        kinds.setdefault(job.folder.name, []).append(job)
    return {kind: _minutes(ones) for kind, ones in kinds.items()}


def as_markdown(found: Findings) -> str:
    """The table and the comparisons for people."""
    lines = [
        (
            "| | stories right, 3 attempts | of each seed | 1 attempt | 5 attempts | 3 attempts, new seeds | "
            "steps right, 3 | images a step | critic: accuracy, right accepted, wrong refused |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found.rows:
        critic = " / ".join(
            f"{one.rate:.3f}" for one in (row.accuracy, row.true_recall, row.false_recall) if one
        )
        cells = [
            row.title,
            _cell(row.stories.get(3)),
            " ".join(f"{one:.3f}" for one in row.by_seed),
            _cell(row.stories.get(1)),
            _cell(row.stories.get(5)),
            _cell(row.new_seeds),
            _cell(row.steps.get(3)),
            f"{row.draws:.2f}",
            critic or "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| compared, case by case | difference | p (McNemar) | pairs |", "|---|---|---|---|"]
    for attempts, one in found.rl_over_sft.items():
        lines.append(_compared_line(f"full RL over full SFT, stories, {attempts} attempt(s)", one))
    lines.append(_compared_line("two agents (full SFT) over one, stories, 3 attempts", found.two_over_one))
    for name, one in found.remedies.items():
        lines.append(_compared_line(f"refined prompts, {ROWS[name]} over full SFT", one))
    apart = "are apart" if found.apart_at_three else "overlap"
    lines += [
        "",
        (
            "Shown pages that were all right so far, the one shared agent named "
            f"{_cell(found.next_steps_right)} of the next steps rightly."
        ),
        "",
        f"The intervals of full RL and full SFT at three attempts {apart}. "
        "Planner SFT, critic SFT and GRPO of one seed took "
        f"{', '.join(f'{one:.0f}' for one in found.minutes_of_chains)} minutes "
        f"of one core, all jobs together {found.minutes_in_all:.0f} (the table takes that divided by the "
        "processes at once).",
        "",
        f"Made at commit {found.commit[:12]} by `{found.command}`.",
    ]
    return "\n".join(lines) + "\n"


def _cell(one: Share | None) -> str:
    return f"{one.rate:.3f} ({one.low:.3f} to {one.high:.3f})" if one else "-"


def _compared_line(title: str, one: Difference) -> str:
    return f"| {title} | {one.difference:+.3f} ({one.low:+.3f} to {one.high:+.3f}) | {one.p:.2g} | {one.n} |"

"""What the ablation found: shares with intervals over seeds and stories, and every comparison with its tests.

Decisions. Seeds had trainings of their own, so they are what was repeated: intervals are bootstrapped over
seeds and their stories (evaluation/bootstrap.py), and beside McNemar's test on stories stands one on the
seeds' differences alone, which with five seeds is never below 0.0625. Where all stories came out alike there
is nothing to draw anew; such intervals are those of so many stories (Wilson's; of differences Agresti and
Min's). Whatever comes out is written: pairs
whose order is not the paper's are computed here, and never picked by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

from pydantic import BaseModel

from ...evaluation.bootstrap import Mean, two_level_mean
from ...evaluation.intervals import Share, cautious, paired, share, sign_flip_test
from ..data.noisy_teacher import TEACHERS
from ..job_runner import Job
from .measures import ALL_TRIES, TRIES, Measured, NextSteps, Remedies, exact_plans, stored
from .pipeline import (
    OTHER_TEACHERS,
    PIPELINE,
    PUBLISHED_TRIES,
    ROWS,
    USUAL_TEACHER,
    all_jobs,
    measured,
    seed_folder,
)
from .settings import AblationSettings

BESIDE = (("rl", "rejection"), ("rl", "rl_no_step"), ("rl", "rl_no_accuracy"), ("oracle_planner", "sft"))
"""Comparisons beside those of each row with its baseline."""


class Compared(BaseModel):
    """How much more often stories came out right in `row` than in `baseline`: the difference with its
    interval over seeds and stories, that of each seed, McNemar's p on the stories, and that of flipping the
    seeds' signs."""

    row: str
    baseline: str
    difference: Mean
    of_each_seed: list[float]
    p_stories: float
    p_seeds: float
    published: float | None = None


class Row(BaseModel):
    """A row of the table; stories by number of attempts, those of single seeds at three (at one where there
    are no more), and the critic's verdicts."""

    name: str
    title: str
    published: float | None
    stories: dict[int, Mean]
    of_each_seed: list[float]
    steps: float
    draws: float
    accuracy: Share | None = None
    true_recall: Share | None = None
    false_recall: Share | None = None
    against_baseline: Compared | None = None


class TaughtBy(BaseModel):
    """Full SFT and full RL with rows of this teacher, for as many seeds."""

    teacher: str
    remedies: dict[str, float]
    overlooked: float
    seeds: int
    sft: Mean
    rl: Mean
    rl_over_sft: Compared


class Findings(BaseModel):
    """The whole table, the comparisons, the minutes of everything (of one core), and how it was made."""

    command: str
    commit: str
    settings: AblationSettings
    rows: list[Row]
    tries: dict[str, list[Compared]]
    beside: list[Compared]
    not_as_published: list[Compared]
    teachers: list[TaughtBy]
    exact_plans: dict[str, list[float]]
    next_steps_right: Share
    remedies: list[Compared]
    remedies_right: dict[str, Share]
    minutes_in_all: float
    minutes_of_chains: list[float]
    minutes_by_job: dict[str, float]


Outcomes = Sequence[Sequence[bool]]
"""Of each seed, whether each story came out right."""


def collect(out: Path, settings: AblationSettings, command: str, commit: str) -> Findings:
    """Read what all jobs found."""
    folders = [seed_folder(out, seed) for seed in range(settings.seeds)]
    found = {name: [_read(folder, name) for folder in folders] for name in ROWS}
    right = {name: _right(seeds, _most(seeds[0])) for name, seeds in found.items()}
    next_steps = [NextSteps.model_validate_json(stored(measured(folder, "next_steps"))) for folder in folders]
    remedies = [Remedies.model_validate_json(stored(measured(folder, "remedies"))) for folder in folders]
    jobs = all_jobs(out, settings)
    return Findings(
        command=command,
        commit=commit,
        settings=settings,
        rows=[_row(name, seeds, right) for name, seeds in found.items()],
        tries={name: _tries(found[name]) for name in ("sft", "rl")},
        beside=[_against(right, *pair) for pair in BESIDE],
        not_as_published=not_as_published(right, _tries(found["rl"])),
        teachers=[_taught_by(name, folders[: settings.teacher_seeds], found) for name in TEACHERS]
        if settings.teacher_seeds
        else [],
        exact_plans={
            name: [exact_plans(folder / job) for folder in folders]
            for name, job in (("planner", "plans"), ("one agent", "agent_plans"))
        },
        next_steps_right=share([ok for one in next_steps for story in one.right for ok in story]),
        remedies=[_remedies(remedies, name) for name in remedies[0].refused if name != "sft"],
        remedies_right={
            name: share([ok for one in remedies for ok in one.drawn_right[name]])
            for name in remedies[0].refused
        },
        minutes_in_all=_minutes(jobs),
        minutes_of_chains=[
            _minutes([job for job in jobs if job.folder.parent == f and job.folder.name in PIPELINE])
            for f in folders
        ],
        minutes_by_job=_by_kind(jobs),
    )


def _read(folder: Path, name: str) -> Measured:
    return Measured.model_validate_json(stored(measured(folder, name)))


def _most(one: Measured) -> int:
    """The number of attempts of the main column: three, or what there is."""
    return TRIES if TRIES in one.told else max(one.told)


def _right(seeds: Sequence[Measured], attempts: int) -> Outcomes:
    return [[one.right for one in seed.told[attempts]] for seed in seeds]


def _mean(outcomes: Outcomes) -> Mean:
    found = two_level_mean([[float(ok) for ok in seed] for seed in outcomes])
    if found.low < found.high:
        return found
    alike = share([ok for seed in outcomes for ok in seed])
    return found.model_copy(update={"low": alike.low, "high": alike.high})


def compare(row: str, baseline: str, ones: Outcomes, others: Outcomes) -> Compared:
    """Two rows on the same stories of the same seeds; where one of them told fewer, on those that both
    told."""
    pairs = [list(zip(one, other, strict=False)) for one, other in zip(ones, others, strict=True)]
    differences = [[float(one) - float(other) for one, other in seed] for seed in pairs]
    means = [sum(seed) / len(seed) for seed in differences]
    every = [pair for seed in pairs for pair in seed]
    published = [ROWS[name].published if name in ROWS else None for name in (row, baseline)]
    difference = two_level_mean(differences)
    if difference.low == difference.high:
        alike = cautious([one for one, _ in every], [other for _, other in every])
        difference = difference.model_copy(update={"low": alike.low, "high": alike.high})
    return Compared(
        row=row,
        baseline=baseline,
        difference=difference,
        of_each_seed=[round(mean, 3) for mean in means],
        p_stories=paired([one for one, _ in every], [other for _, other in every]).p,
        p_seeds=sign_flip_test(means),
        published=round(published[0] - published[1], 1)
        if published[0] is not None and published[1] is not None
        else None,
    )


def _against(right: dict[str, Outcomes], row: str, baseline: str) -> Compared:
    return compare(row, baseline, right[row], right[baseline])


def _tries(seeds: Sequence[Measured]) -> list[Compared]:
    """More attempts against fewer, of one row."""
    return [
        compare(f"{more} tries", f"{fewer} tries", _right(seeds, more), _right(seeds, fewer)).model_copy(
            update={"published": round(PUBLISHED_TRIES[more] - PUBLISHED_TRIES[fewer], 1)}
        )
        for fewer, more in pairwise(ALL_TRIES)
    ]


def not_as_published(right: dict[str, Outcomes], tries: Sequence[Compared]) -> list[Compared]:
    """Pairs of rows (and of numbers of attempts) where the one that the paper has higher is the lower one
    here."""
    pairs = []
    for one, other in combinations([name for name in right if ROWS[name].published is not None], 2):
        lower, higher = sorted((one, other), key=lambda name: ROWS[name].published or 0.0)
        if ROWS[lower].published != ROWS[higher].published:
            pairs.append(_against(right, higher, lower))
    return [pair for pair in [*pairs, *tries] if pair.difference.mean < 0]


def _row(name: str, seeds: Sequence[Measured], right: dict[str, Outcomes]) -> Row:
    told = [one for seed in seeds for one in seed.told[_most(seeds[0])]]
    steps = [ok for one in told for ok in one.steps]
    baseline = ROWS[name].baseline
    row = Row(
        name=name,
        title=ROWS[name].title,
        published=ROWS[name].published,
        stories={attempts: _mean(_right(seeds, attempts)) for attempts in seeds[0].told},
        of_each_seed=[round(sum(seed) / len(seed), 3) for seed in right[name]],
        steps=sum(steps) / max(1, len(steps)),
        draws=sum(one.draws for one in told) / max(1, len(steps)),
        against_baseline=_against(right, name, baseline) if baseline else None,
    )
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


def _taught_by(name: str, folders: Sequence[Path], found: dict[str, list[Measured]]) -> TaughtBy:
    read = {
        row: [_read(folder, f"{row}_{name}") for folder in folders]
        if name in OTHER_TEACHERS
        else found[row][: len(folders)]
        for row in ("sft", "rl")
    }
    right = {row: _right(seeds, TRIES) for row, seeds in read.items()}
    teacher = TEACHERS[name]
    return TaughtBy(
        teacher=name if name != USUAL_TEACHER else f"{name} (the table's)",
        remedies={remedy: round(often, 3) for remedy, often in teacher.remedies.items()},
        overlooked=teacher.overlooked,
        seeds=len(folders),
        sft=_mean(right["sft"]),
        rl=_mean(right["rl"]),
        rl_over_sft=_against(right, "rl", "sft"),
    )


def _remedies(found: Sequence[Remedies], name: str) -> Compared:
    """The critic's prompts against those of full SFT, on the failed attempts that both refuse."""
    drawn: dict[str, list[list[bool]]] = {name: [], "sft": []}
    for seed in found:
        both = [one and other for one, other in zip(seed.refused[name], seed.refused["sft"], strict=True)]
        if any(both):
            for row, outcomes in drawn.items():
                pairs = zip(seed.drawn_right[row], both, strict=True)
                outcomes.append([ok for ok, refused in pairs if refused])
    if not drawn["sft"]:
        return _nothing_in_common(name)
    return compare(name, "sft", drawn[name], drawn["sft"]).model_copy(update={"published": None})


def _nothing_in_common(name: str) -> Compared:
    nothing = Mean(mean=0.0, low=-1.0, high=1.0, n=0)
    return Compared(row=name, baseline="sft", difference=nothing, of_each_seed=[], p_stories=1.0, p_seeds=1.0)


def _minutes(jobs: Sequence[Job]) -> float:
    return round(sum(job.seconds for job in jobs) / 60, 1)


def _by_kind(jobs: Sequence[Job]) -> dict[str, float]:
    kinds: dict[str, list[Job]] = {}
    for job in jobs:
        kinds.setdefault(job.folder.name, []).append(job)
    return {kind: _minutes(ones) for kind, ones in kinds.items()}

"""Runs the ablation and writes its report: shares with intervals over seeds and stories, and comparisons.

A folder belongs to one set of settings, so that a table never mixes two. Only seeds can be added, because no
job depends on their number. A stopped run can be continued.

Each seed has its own trainings, so seeds are the unit of repetition. Intervals are Student's over seeds
and their stories (training/statistics.py). Next to McNemar's test on stories there is a sign-flip
test on the seeds' differences alone, whose p is never below 0.0625 with five seeds. If all stories have the
same outcome, there is no variance; the interval is then Wilson's for that number of stories, or
Agresti and Min's for differences. docs/explanation/results.md discusses the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel

from ....backend.core.errors import TrainingError
from ....backend.core.files.atomic import write_text
from ....backend.core.files.lock import SystemLock
from ....backend.core.machine.libraries import TRAINERS, require
from ....backend.models.checkpoints.checkpoint import checkpoint_digest
from ....training.statistics import (
    OF_DIFFERENCES,
    Mean,
    Share,
    agresti_min_interval,
    paired_difference,
    share,
    sign_flip_test,
    two_level_mean,
)
from ....training.trainer.resume import claim_run
from .jobs import PUBLISHED_ATTEMPTS, ROWS, all_jobs, measured, run_jobs, seed_folder
from .measures import ALL_ATTEMPTS, ATTEMPTS, RowOutcomes, exact_plans, stored
from .training import AblationSettings, check_start

EXACT = {"planner": "plans", "one agent": "agent_plans"}
"""The agents that wrote whole plans, and the job that counted them."""
COMPARED = (("rl", "rl_no_step"), ("rl", "rl_no_accuracy"), ("oracle_planner", "sft"))
"""Comparisons in addition to those of each row with its baseline."""


class RowComparison(BaseModel):
    """Difference in the share of correct stories between `row` and `baseline`.

    Attributes:
        difference: Mean difference with its interval over seeds and stories.
        of_each_seed: Difference per seed.
        p_stories: McNemar's p on the stories.
        p_seeds: p of flipping the signs of the seeds' differences.
        published: Difference in the paper, in points.
    """

    row: str
    baseline: str
    difference: Mean
    of_each_seed: list[float]
    p_stories: float
    p_seeds: float
    published: float | None = None


class FindingsRow(BaseModel):
    """A row of the table.

    Attributes:
        stories: Share of correct stories by number of attempts.
        of_each_seed: Share per seed with three attempts (with one, if there are no more).
        steps: Share of correct steps.
        draws: Generated images per step.
        accuracy: Share of correct verdicts of the critic.
        true_recall: Share of correct images that the critic accepts.
        false_recall: Share of wrong images that the critic rejects.
    """

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
    against_baseline: RowComparison | None = None


class Findings(BaseModel):
    """The table and the comparisons, and how they were made.

    Attributes:
        tries: Comparisons of more with fewer attempts, by row.
        beside: Comparisons of rows in addition to those with baselines.
        exact_plans: Share of exact plans per seed, by agent.
        start: Digests of the base and the novice that all seeds start from.
        outcomes: Per seed, row and number of attempts, whether each story is correct (1 or 0).
    """

    rows: list[FindingsRow]
    tries: dict[str, list[RowComparison]]
    beside: list[RowComparison]
    exact_plans: dict[str, list[float]]
    command: str
    commit: str
    start: str
    settings: AblationSettings
    outcomes: list[dict[str, dict[int, str]]]


Right = Sequence[Sequence[bool]]
"""Whether each story is correct, per seed."""
Rows = Mapping[str, Sequence[RowOutcomes]]
"""Outcomes of each row, per seed."""


def ablate(
    out: Path,
    start: Path,
    settings: AblationSettings,
    command: str,
    commit: str,
    log: Callable[[str], None],
) -> Findings:
    """Train and measure all rows below `out`, and write `ablation.json` and `ablation.md`.

    A folder can be extended by more seeds; finished ones stay as they are.

    Args:
        out: Folder of the ablation.
        start: Folder with the checkpoints `base` and `novice`, from which all seeds start.
        settings: Its settings.
        command: Command to store in the report.
        commit: Commit to store in the report.
        log: Receives progress lines.

    Raises:
        TrainingError: If the folder has other settings, or another process is using it.
    """
    require(*TRAINERS)
    check_start(start)
    claim(out, start, settings)
    lock = SystemLock(out / "running.lock")
    if not lock.take():
        raise TrainingError(
            f"Another process is running the ablation in {str(out)!r}.",
            "Wait for it or stop it, then run the same command again to continue.",
        )
    try:
        run_jobs(all_jobs(out, start, settings), settings.workers, log)
    finally:
        lock.release()
    found = findings_in(out, settings, command, commit, start_digests(start))
    for ending, text in {"json": found.model_dump_json(indent=2) + "\n", "md": as_markdown(found)}.items():
        write_text(out / f"ablation.{ending}", text, TrainingError, "The ablation's report")
    return found


def claim(out: Path, start: Path, settings: AblationSettings) -> None:
    """Reserve a folder for these settings and this start, with any number of seeds and processes.

    Raises:
        TrainingError: If it belongs to another run.
    """
    kept = settings.model_dump(exclude={"seeds", "first_seed", "workers"})
    claim_run(out, {"stage": "ablation", **kept, "start": start_digests(start)})


def start_digests(start: Path) -> str:
    """Return the digests of the checkpoints that all seeds start from, separated by a space."""
    return " ".join(checkpoint_digest(start / name) for name in ("base", "novice"))


def findings_in(out: Path, settings: AblationSettings, command: str, commit: str, start: str) -> Findings:
    """Compute the table from the results of the finished jobs below `out`."""
    folders = [seed_folder(out, seed) for seed in settings.all_seeds]
    rows = {
        name: [RowOutcomes.model_validate_json(stored(measured(folder, name))) for folder in folders]
        for name in ROWS
    }
    right = {name: _right(ones, _most(ones)) for name, ones in rows.items()}
    outcomes = [{name: _letters(ones[at]) for name, ones in rows.items()} for at in range(len(folders))]
    return Findings(
        rows=[_row(name, rows[name], right) for name in ROWS],
        tries={
            "sft": _by_attempts(rows["sft"], None),
            "rl": _by_attempts(rows["rl"], PUBLISHED_ATTEMPTS),
        },
        beside=[_against(right, *pair) for pair in COMPARED],
        exact_plans={name: [exact_plans(folder / job) for folder in folders] for name, job in EXACT.items()},
        command=command,
        commit=commit,
        start=start,
        settings=settings,
        outcomes=outcomes,
    )


def _letters(one: RowOutcomes) -> dict[int, str]:
    return {count: "".join(str(int(story.right)) for story in told) for count, told in one.told.items()}


def _most(ones: Sequence[RowOutcomes]) -> int:
    """Return the number of attempts of the main column: three, or the maximum if there are fewer."""
    return ATTEMPTS if ATTEMPTS in ones[0].told else max(ones[0].told)


def _right(ones: Sequence[RowOutcomes], attempts: int) -> Right:
    return [[story.right for story in one.told[attempts]] for one in ones]


def mean_of(outcomes: Right) -> Mean:
    """Return the share of correct stories, with its interval over seeds and stories."""
    found = two_level_mean([[float(ok) for ok in seed] for seed in outcomes])
    if found.low < found.high:
        return found
    alike = share([ok for seed in outcomes for ok in seed])
    return found.model_copy(update={"low": alike.low, "high": alike.high})


def compare(row: str, baseline: str, ones: Right, others: Right) -> RowComparison:
    """Compare two rows on the same stories of the same seeds; if one has fewer stories, on those of both."""
    pairs = [list(zip(one, other, strict=False)) for one, other in zip(ones, others, strict=True)]
    differences = [[float(one) - float(other) for one, other in seed] for seed in pairs]
    means = [sum(seed) / len(seed) for seed in differences]
    first, second = zip(*(pair for seed in pairs for pair in seed), strict=True)
    published = [ROWS[name].published if name in ROWS else None for name in (row, baseline)]
    difference = two_level_mean(differences, bounds=OF_DIFFERENCES)
    if difference.low == difference.high:
        alike = agresti_min_interval(first, second)
        difference = difference.model_copy(update={"low": alike.low, "high": alike.high})
    return RowComparison(
        row=row,
        baseline=baseline,
        difference=difference,
        of_each_seed=[round(mean, 3) for mean in means],
        p_stories=paired_difference(first, second).p,
        p_seeds=sign_flip_test(means),
        published=_gain(*published),
    )


def _gain(more: float | None, less: float | None) -> float | None:
    return None if more is None or less is None else round(more - less, 1)


def _against(right: Mapping[str, Right], row: str, baseline: str) -> RowComparison:
    return compare(row, baseline, right[row], right[baseline])


def _by_attempts(ones: Sequence[RowOutcomes], published: Mapping[int, float] | None) -> list[RowComparison]:
    """Compare more with fewer attempts in one row; `published` has the paper's averages for this row."""
    return [
        compare(f"{more} tries", f"{fewer} tries", _right(ones, more), _right(ones, fewer)).model_copy(
            update={"published": _gain(published[more], published[fewer]) if published else None}
        )
        for fewer, more in pairwise(ALL_ATTEMPTS)
    ]


def _row(name: str, ones: Sequence[RowOutcomes], right: Mapping[str, Right]) -> FindingsRow:
    told = [story for one in ones for story in one.told[_most(ones)]]
    steps = [ok for story in told for ok in story.steps]
    baseline = ROWS[name].baseline
    row = FindingsRow(
        name=name,
        title=ROWS[name].title,
        published=ROWS[name].published,
        stories={attempts: mean_of(_right(ones, attempts)) for attempts in ones[0].told},
        of_each_seed=[round(sum(seed) / len(seed), 3) for seed in right[name]],
        steps=sum(steps) / max(1, len(steps)),
        draws=sum(story.draws for story in told) / max(1, len(steps)),
        against_baseline=_against(right, name, baseline) if baseline else None,
    )
    judged = [
        pair for one in ones if one.judged for pair in zip(one.judged.said, one.judged.truth, strict=True)
    ]
    if judged:
        row.accuracy = share([said == truth for said, truth in judged])
        row.true_recall = share([said is True for said, truth in judged if truth])
        row.false_recall = share([said is False for said, truth in judged if not truth])
    return row


def as_markdown(found: Findings) -> str:
    """Format the table and the comparisons as Markdown."""
    exact = "; ".join(
        f"{name} {' '.join(f'{one:.3f}' for one in shares)}" for name, shares in found.exact_plans.items()
    )
    ending = [
        f"Plans exact, of each seed: {exact}.",
        "",
        "Intervals are 95 %, of the verdicts' shares Wilson's, else Student's over seeds and stories.",
        "",
        f"Made at commit {found.commit[:12]} by `{found.command}`, starting from {found.start}.",
        "",
    ]
    return "\n".join([*_table(found.rows), "", *_comparisons(found), "", *ending])


def _table(rows: Sequence[FindingsRow]) -> list[str]:
    lines = [
        "| | stories right, 3 attempts | of each seed | over its baseline | paper | 1 attempt | 5 attempts | "
        "steps right | images a step | critic: accuracy, right accepted, wrong refused |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        critic = [one for one in (row.accuracy, row.true_recall, row.false_recall) if one]
        against = row.against_baseline
        cells = [
            row.title,
            _mean(row.stories.get(3)),
            " ".join(f"{one:.3f}" for one in row.of_each_seed),
            f"{_change(against.difference)} over {against.baseline}" if against else "-",
            f"{row.published:g}" if row.published is not None else "-",
            _mean(row.stories.get(1)),
            _mean(row.stories.get(5)),
            f"{row.steps:.3f}" if ROWS[row.name].judged_by_plan else "-",
            f"{row.draws:.2f}",
            " / ".join(f"{one.rate:.3f}" for one in critic) or "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _comparisons(found: Findings) -> list[str]:
    lines = [
        "| compared, story by story | difference | of each seed | p, stories (McNemar) | p, seeds (signs) | "
        "pairs | paper |",
        "|---|---|---|---|---|---|---|",
    ]
    baselines = [row.against_baseline for row in found.rows if row.against_baseline]
    lines += [_compared(one) for one in [*baselines, *found.beside]]
    for name, several in found.tries.items():
        lines += [_compared(one, f"{ROWS[name].title}: ") for one in several]
    return lines


def _compared(one: RowComparison, before: str = "") -> str:
    names = [ROWS[name].title if name in ROWS else name for name in (one.row, one.baseline)]
    cells = [
        f"{before}{' over '.join(names)}",
        _change(one.difference),
        " ".join(f"{value:+.3f}" for value in one.of_each_seed),
        f"{one.p_stories:.2g}",
        f"{one.p_seeds:.2g}",
        str(one.difference.n),
        f"{one.published:+g}" if one.published is not None else "-",
    ]
    return f"| {' | '.join(cells)} |"


def _mean(one: Mean | None) -> str:
    return f"{one.mean:.3f} ({one.low:.3f} to {one.high:.3f})" if one else "-"


def _change(one: Mean) -> str:
    return f"{one.mean:+.3f} ({one.low:+.3f} to {one.high:+.3f})"

"""Runs the ablation and writes its report. A stopped run can be continued.

A folder belongs to one set of settings, so that a table never mixes two. Only seeds can be added, because no
job depends on their number. Times are processor time of the jobs. Claims are computed from the outcomes with
their figures; rows that differ from the paper get their own table, and docs/explanation/results.md discusses
the reasons.

The plot is SVG without a plotting library, readable on light and dark backgrounds: a line per row with
intervals, and a tick per seed. The paper's figures are scores of a different kind, out of 100, so they are
text next to the row and not on its axis.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path

from ....backend.checkpoints.checkpoint import checkpoint_digest
from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text
from ....backend.files.lock import SystemLock
from ....backend.machine.libraries import TRAINERS, require
from ....training.statistics import Mean, Share
from ....training.trainer.resume import claim_run
from ..job_runner import run_jobs
from .findings import Findings, FindingsRow, RowComparison, findings_of
from .outcomes import WHICH, AblationOutcomes, check_together, joined, note_commit, outcomes_in
from .pipeline import ROWS, all_jobs
from .settings import AblationSettings
from .start import check_start


def ablate(
    out: Path,
    settings: AblationSettings,
    command: str,
    commit: str,
    log: Callable[[str], None],
    others: Sequence[AblationOutcomes] = (),
) -> Findings:
    """Train and measure all rows below `out`, and write `ablation.json`, `ablation.md` and `ablation.svg`.

    A folder can be extended by more seeds; finished ones stay as they are.

    Args:
        out: Folder of the ablation.
        settings: Its settings.
        command: Command to store in the report.
        commit: Commit to store in the report.
        log: Receives progress lines.
        others: Outcomes from reports of other runs to include in the table.

    Raises:
        TrainingError: If the folder has other settings, or another process is using it.
        SettingsError: If the other outcomes have different settings.
    """
    require(*TRAINERS)
    run_here = (settings, settings.all_seeds)
    check_together([run_here, *((one.settings, [seed.seed for seed in one.seeds]) for one in others)])
    if settings.start is not None:
        check_start(settings.start)
    claim(out, settings)
    lock = SystemLock(out / "running.lock")
    if not lock.take():
        raise TrainingError(
            f"Another process is running the ablation in {str(out)!r}.",
            "Wait for it or stop it, then run the same command again to continue.",
        )
    try:
        note_commit(out, settings, commit)
        run_jobs(all_jobs(out, settings), settings.workers, log)
    finally:
        lock.release()
    found = findings_of(joined([outcomes_in(out, settings, command, commit), *others]))
    texts = {"json": found.model_dump_json(indent=2) + "\n", "md": as_markdown(found), "svg": as_svg(found)}
    for ending, text in texts.items():
        write_text(out / f"ablation.{ending}", text, TrainingError, "The ablation's report")
    return found


def claim(out: Path, settings: AblationSettings) -> None:
    """Reserve a folder for these settings and this start, with any number of seeds and processes.

    Raises:
        TrainingError: If it belongs to another run.
    """
    kept = settings.model_dump(exclude=WHICH)
    if settings.start is not None:
        kept["start"] = " ".join(checkpoint_digest(settings.start / name) for name in ("base", "novice"))
    claim_run(out, {"stage": "ablation", **kept})


def as_markdown(found: Findings) -> str:
    """Format the table and the comparisons as Markdown."""
    return "\n".join(
        [
            *_table(found.rows),
            "",
            *_comparisons(found),
            "",
            *_disorder(found.not_as_published),
            "",
            *_ending(found),
            "",
        ]
    )


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
    return lines + [_compared(one, "refined prompts drawn right: ") for one in found.remedies]


def _disorder(pairs: Sequence[RowComparison]) -> list[str]:
    if not pairs:
        return ["No pair of rows is in a different order than in the paper."]
    lines = [
        "Not as published: the first of each pair is the higher one in the paper.",
        "",
        "| pair | difference here | of each seed | p, stories | p, seeds | paper | could it be chance |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in pairs:
        chance = "no: the interval is below 0" if one.difference.high < 0 else "yes: the interval contains 0"
        paper = f"{one.published:+g}" if one.published is not None else "-"
        cells = [_pair(one), _change(one.difference), _each(one), f"{one.p_stories:.2g}"]
        lines.append(f"| {' | '.join([*cells, f'{one.p_seeds:.2g}', paper, chance])} |")
    return lines


def _ending(found: Findings) -> list[str]:
    seeds = len(found.outcomes.seeds)
    made = "; ".join(
        f"seeds {', '.join(map(str, one.seeds))} at commit "
        f"{' and '.join(commit[:12] for commit in one.commit.split())} by `{one.command}`"
        for one in found.outcomes.made
    )
    starts = sorted({one.start for one in found.outcomes.made})
    exact = "; ".join(
        f"{name} {' '.join(f'{one:.3f}' for one in shares)}" for name, shares in found.exact_plans.items()
    )
    chains = ", ".join(f"{one:.0f}" for one in found.minutes_of_chains)
    kinds = ", ".join(
        f"{kind} {minutes:.1f}"
        for kind, minutes in sorted(found.minutes_by_job.items(), key=lambda one: -one[1])
    )
    return [
        f"Plans exact, of each seed: {exact}. Shown pages that were all right so far, "
        f"the one agent named {_share(found.next_steps_right)} of the next steps rightly.",
        "",
        "Intervals are 95 %, of the verdicts' shares Wilson's, else bootstrapped over seeds and their "
        f"stories (with {seeds} seeds, p by signs is never below {min(1.0, 2 / 2**seeds):.2g}).",
        "",
        f"Planner SFT, critic SFT and GRPO of one seed took {chains} minutes of one core, "
        f"all jobs together {found.minutes_in_all:.0f}: {kinds}.",
        "",
        f"Made: {made}.",
        "",
        f"{'All seeds start' if len(starts) == 1 else 'Seeds start'} from {' or '.join(starts)} (digests of "
        "the base and the novice).",
    ]


def _compared(one: RowComparison, before: str = "") -> str:
    paper = f"{one.published:+g}" if one.published is not None else "-"
    cells = [
        f"{before}{_pair(one)}",
        _change(one.difference),
        _each(one),
        f"{one.p_stories:.2g}",
        f"{one.p_seeds:.2g}",
        str(one.difference.n),
        paper,
    ]
    return f"| {' | '.join(cells)} |"


def _pair(one: RowComparison) -> str:
    names = [ROWS[name].title if name in ROWS else name for name in (one.row, one.baseline)]
    return " over ".join(names)


def _each(one: RowComparison) -> str:
    return " ".join(f"{value:+.3f}" for value in one.of_each_seed)


def _mean(one: Mean | None) -> str:
    return f"{one.mean:.3f} ({one.low:.3f} to {one.high:.3f})" if one else "-"


def _change(one: Mean) -> str:
    return f"{one.mean:+.3f} ({one.low:+.3f} to {one.high:+.3f})"


def _share(one: Share) -> str:
    return f"{one.rate:.3f} ({one.low:.3f} to {one.high:.3f})"


LEFT, WIDTH, LINE, TOP = 330, 900, 38, 46
COLORS = {1: "#8a8f98", 3: "#2f6fde", 5: "#d9622b"}
STYLE = (
    "text{font:13px "
    "system-ui,sans-serif;fill:#222}.quiet{fill:#666}@media(prefers-color-scheme:dark){text{fill:#ddd}.quiet{fill:#999}}"
)


def _across(value: float) -> float:
    return LEFT + value * (WIDTH - LEFT - 60)


def as_svg(found: Findings) -> str:
    """Return the plot as SVG. The horizontal axis is the share of fully correct stories, from 0 to 1."""
    height = TOP + LINE * len(found.rows) + 40
    parts = []
    for tenth in range(0, 11, 2):
        x = _across(tenth / 10)
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{TOP - 8}" y2="{height - 34}" stroke="#8884"/>')
        parts.append(
            f'<text class="quiet" x="{x:.0f}" y="{height - 16}" text-anchor="middle">{tenth / 10:.1f}</text>'
        )
    for number, row in enumerate(found.rows):
        middle = TOP + LINE * number + LINE / 2
        parts.append(
            f'<text x="{LEFT - 14}" y="{middle + 4:.0f}" text-anchor="end">{html.escape(row.title)}</text>'
        )
        if row.published is not None:
            parts.append(
                f'<text class="quiet" x="{WIDTH - 6}" y="{middle + 4:.0f}" text-anchor="end">'
                f"{row.published:g}</text>"
            )
        for share in row.of_each_seed:
            x = _across(share)
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{middle - 5:.0f}" y2="{middle + 5:.0f}" '
                f'stroke="{COLORS[3 if 3 in row.stories else 1]}88"/>'
            )
        for offset, (attempts, one) in enumerate(sorted(row.stories.items())):
            parts.append(_interval(one, middle + 8 * (offset - (len(row.stories) - 1) / 2), COLORS[attempts]))
    legend = "".join(
        f'<circle cx="{LEFT + 130 * index}" cy="20" r="4" fill="{color}"/>'
        f'<text x="{LEFT + 130 * index + 10}" y="24">{attempts} attempt{"s" if attempts > 1 else ""}</text>'
        for index, (attempts, color) in enumerate(COLORS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Share of fully correct stories"><style>{STYLE}</style>'
        f'<text x="16" y="24">Fully correct stories</text>{legend}'
        f'<text class="quiet" x="{WIDTH - 6}" y="24" text-anchor="end">95 % intervals, paper</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _interval(one: Mean, y: float, color: str) -> str:
    low, high, rate = _across(one.low), _across(one.high), _across(one.mean)
    return (
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{color}" stroke-width="2"/>'
        f'<circle cx="{rate:.1f}" cy="{y:.1f}" r="3.6" fill="{color}"/>'
    )

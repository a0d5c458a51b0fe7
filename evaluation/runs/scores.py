"""Figures of a benchmark: values of its items, means with intervals, and a table.

An item without an answer counts as zero in every metric, and so does one that the evaluator did not score.
The head of the table shows how many there are of each. Values of single items are stored, so that two folders
can be compared item by item.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ...backend.errors import SettingsError
from ...backend.files.atomic import write_text
from ...backend.files.bounded_reader import read_json
from ...training.statistics.bootstrap import Mean, stratified_means
from ...training.statistics.intervals import share
from ..benchmarks.base.benchmark import Benchmark, BenchmarkItem, Values
from ..licences import ROLES, UNKNOWN, licences_of
from .judge_info import JudgeInfo
from .settings import BenchmarkSettings, open_folder
from .submission import SUBMISSION, CollectedItem, read_collected

FILE = "scores.json"
TABLE = "scores.md"
PIPE = "\\|"
NONE = "–"
"""Shown in a table for a missing value."""


class MetricScore(BaseModel):
    """A metric: its mean over all items, over the means of the categories, and in each category."""

    metric: str
    yes_no: bool
    items: Mean
    macro: Mean
    categories: dict[str, Mean]


class BenchmarkScores(BaseModel):
    """Content of scores.json.

    Attributes:
        unscored: Number of answers that the evaluator did not score.
        terms: License terms of the benchmark.
        licences: Licenses of the models by role, as far as they are known.
        values: Values by item and metric. A metric that does not apply to an item is missing.
    """

    benchmark: str
    title: str
    judged: JudgeInfo
    terms: str
    licences: dict[str, str]
    setting: BenchmarkSettings
    items: int
    of: int
    gaps: int
    unscored: int
    draws_an_item: float
    seconds_an_item: float
    forced_share: float
    figures: list[MetricScore]
    categories: dict[str, str]
    values: dict[str, dict[str, float]]

    @property
    def had_critic(self) -> bool:
        """Whether a critic judged images during the runs."""
        return self.setting.settings.max_attempts > 1 and self.setting.models.get("critic") != "none"


@dataclass(frozen=True)
class CollectedFolder:
    """A collected folder with its settings, benchmark and items."""

    out: Path
    setting: BenchmarkSettings
    benchmark: Benchmark
    items: list[BenchmarkItem]
    collected: list[CollectedItem]


def opened(out: Path) -> CollectedFolder:
    """Open a collected folder.

    Raises:
        SettingsError: If it was not collected, or items were run after that.
    """
    setting, benchmark, items = open_folder(out)
    collected = read_collected(out)
    if {one.id for one in collected} != {item.id for item in items}:
        raise SettingsError(
            f"More items of {str(out)!r} were run after the submission was collected.",
            "Run benchmark collect again.",
        )
    return CollectedFolder(out, setting, benchmark, items, collected)


def score(out: Path, results: Path | None = None, judged: JudgeInfo | None = None) -> BenchmarkScores:
    """Compute the figures of a collected folder and write them with `write_scores`.

    Args:
        out: The folder.
        results: Results of the official evaluator, if the benchmark has one.
        judged: How it was judged, if this package ran the evaluator.

    Raises:
        SettingsError: If the folder or results cannot be used.
    """
    folder = opened(out)
    found = folder.benchmark.values(out / SUBMISSION, results, folder.items)
    how = "built in" if results is None else "official code"
    return write_scores(
        folder, found, judged or JudgeInfo(how=how, evaluator=folder.benchmark.terms.evaluator)
    )


def write_scores(folder: CollectedFolder, found: Mapping[str, Values], judged: JudgeInfo) -> BenchmarkScores:
    """Compute figures from the items' values and write scores.json and scores.md.

    Raises:
        SettingsError: If none of the values belongs to one of the folder's items.
    """
    out, setting, benchmark = folder.out, folder.setting, folder.benchmark
    if not set(found) & {item.id for item in folder.items}:
        raise SettingsError(
            "The results contain none of the items of this folder.", "Pass the results of this submission."
        )
    whole = len(benchmark.items(setting.where()))
    scores = _scores(folder, found, judged, whole)
    write_text(out / FILE, scores.model_dump_json(indent=1) + "\n", SettingsError, "Scores")
    write_text(out / TABLE, "\n".join(as_lines(scores)) + "\n", SettingsError, "Table")
    return scores


def _scores(
    folder: CollectedFolder, found: Mapping[str, Values], judged: JudgeInfo, whole: int
) -> BenchmarkScores:
    setting, benchmark, collected = folder.setting, folder.benchmark, folder.collected
    given = {metric for one in found.values() for metric in one}
    metrics = [one for one in benchmark.metrics if one in given or one not in benchmark.optional]
    zero = dict.fromkeys(metrics, 0.0)
    values = {one.id: dict(zero if one.gap else found.get(one.id) or zero) for one in collected}
    categories = {one.id: one.category for one in collected}
    run = [one for one in collected if one.steps]
    drawn = sum(one.drawn_steps for one in run)
    return BenchmarkScores(
        benchmark=setting.benchmark,
        title=benchmark.terms.title,
        judged=judged,
        terms=benchmark.terms.licences,
        licences=licences_of(setting.models),
        setting=setting,
        items=len(collected),
        of=whole,
        gaps=sum(bool(one.gap) for one in collected),
        unscored=sum(not one.gap and not found.get(one.id) for one in collected),
        draws_an_item=sum(one.draws for one in run) / max(1, len(run)),
        seconds_an_item=sum(one.seconds for one in run) / max(1, len(run)),
        forced_share=sum(one.forced for one in run) / max(1, drawn),
        figures=[_figure(metric, metric in benchmark.yes_no, values, categories) for metric in metrics],
        categories=categories,
        values=values,
    )


def _figure(
    metric: str, yes_no: bool, values: Mapping[str, Mapping[str, float]], categories: Mapping[str, str]
) -> MetricScore:
    groups: dict[str, list[float]] = {}
    for name, one in values.items():
        if metric in one:
            groups.setdefault(categories[name], []).append(one[metric])
    if not groups:
        raise SettingsError(
            f"The results contain no value of {metric!r}.", "Pass the results of the official evaluator."
        )
    means = stratified_means(groups)
    one_group = _share if yes_no else _mean
    return MetricScore(
        metric=metric,
        yes_no=yes_no,
        items=_share([one for ones in groups.values() for one in ones]) if yes_no else means.items,
        macro=means.macro,
        categories={name: one_group(ones) for name, ones in sorted(groups.items())},
    )


def _mean(ones: Sequence[float]) -> Mean:
    return stratified_means({"": ones}).items


def _share(ones: Sequence[float]) -> Mean:
    found = share([one == 1.0 for one in ones])
    return Mean(mean=found.rate, low=found.low, high=found.high, n=found.n)


def head_of(scores: BenchmarkScores, skip: Collection[str] = ()) -> list[str]:
    """Return the context of the figures: benchmark, judge, terms, models with licenses, settings and version.

    Args:
        scores: The scores.
        skip: Models and settings to omit.
    """
    setting = scores.setting
    models = [role for role in ROLES if role not in skip]
    settings = {
        "preset": setting.preset,
        "max attempts": setting.settings.max_attempts,
        "seed": setting.settings.seed,
    }
    shown = [f"{name} {value}" for name, value in settings.items() if name not in skip]
    part = scores.items < scores.of or setting.split
    return [
        scores.title,
        *(["Only a part of the benchmark: not comparable with published figures."] if part else []),
        *scores.judged.lines(),
        f"terms of the benchmark: {scores.terms}",
        *(f"{one}: {setting.models.get(one)} ({scores.licences.get(one, UNKNOWN)})" for one in models),
        f"{', '.join(shown)}, interleave-thinker {setting.version} ({setting.commit[:12]})",
    ]


def as_lines(scores: BenchmarkScores) -> list[str]:
    """Return the head and the table."""
    lines = [
        *head_of(scores),
        f"{scores.items} of {scores.of} items; {scores.gaps} gaps and {scores.unscored} unscored "
        "answers count as zero",
        f"{scores.draws_an_item:.2f} attempts and {scores.seconds_an_item:.2f} s per item; "
        + (
            f"{scores.forced_share:.1%} of the generated steps kept an image that the critic did not accept"
            if scores.had_critic
            else "no critic was used"
        ),
        "",
        "| metric | category | mean | 95 % interval | items |",
        "|---|---|---|---|---|",
    ]
    for figure in scores.figures:
        lines.append(_row(figure.metric, "all items", figure.items))
        if len(figure.categories) > 1:
            lines.append(_row(figure.metric, "mean of categories", figure.macro))
            lines += [_row(figure.metric, name, mean) for name, mean in figure.categories.items()]
    return lines


def _row(metric: str, category: str, mean: Mean) -> str:
    interval = f"{mean.low:.3f} to {mean.high:.3f}"
    return table_row([metric, category, f"{mean.mean:.3f}", interval, str(mean.n)])


def table_row(cells: Sequence[str]) -> str:
    """Format a row of a Markdown table. Characters that end a cell or row are escaped or removed."""
    return f"| {' | '.join(' '.join(cell.split()).replace('|', PIPE) for cell in cells)} |"


def read_scores(out: Path) -> BenchmarkScores:
    """Read the scores that `score` wrote.

    Raises:
        SettingsError: If they are missing or damaged.
    """
    try:
        return BenchmarkScores.model_validate(read_json(out / FILE, SettingsError, "Scores"))
    except ValidationError as error:
        raise SettingsError(f"{str(out / FILE)!r} is damaged.", "Call benchmark score again.") from error

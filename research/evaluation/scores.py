"""Figures of a benchmark: values of its items, means with intervals, tables and comparisons.

An item without an answer counts as zero in every metric, and so does one that the evaluator did not score.
The head of the table shows how many there are of each. Values of single items are stored, so that two folders
can be compared item by item: only items that both folders have count, the data must have the same digest, and
both must have been judged alike. Yes-or-no metrics get McNemar's exact test.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ...backend.core.errors import SettingsError
from ...backend.core.files.atomic import write_text
from ...backend.core.files.bounded_reader import read_json
from ...training.statistics import OF_DIFFERENCES, UNBOUNDED, Mean, paired_difference, share, stratified_means
from ..benchmarks.benchmark import Benchmark, BenchmarkItem, Values
from .benchmark_run import BenchmarkSettings, open_folder
from .submission import SUBMISSION, CollectedItem, read_collected

FILE = "scores.json"
TABLE = "scores.md"
ROLES = ("planner", "critic", "generator")
PIPE = "\\|"
NONE = "–"
"""Shown in a table for a missing value."""
OWN_QUESTIONS = "own questions"
"""How scores of 0.3.0 without an official evaluator were made."""
MAX_SHOWN = 20


class JudgeInfo(BaseModel):
    """How a folder was judged, shown above every table. Folders are compared only if they were judged alike.

    Attributes:
        how: "official code" or "built in". Releases up to 0.3.0 also wrote "own questions".
        evaluator: Repository @ commit that this package was written for, if official code was used.
        checkout: Commit of the evaluator's checkout, if this package ran it.
        official: The evaluator's own figures by name.
        judge: Name of the judge; empty if unknown.
    """

    how: str
    evaluator: str = ""
    checkout: str = ""
    official: dict[str, float] = {}
    judge: str = ""

    @property
    def is_like(self) -> tuple[str, ...]:
        """Values that must be equal for two folders to be compared."""
        return self.how, self.evaluator, self.checkout, self.judge

    def lines(self) -> list[str]:
        """Return the lines shown above a table."""
        if self.how == "built in":
            return ["judged exactly by a built-in check"]
        at = f", run unchanged at {self.checkout[:12]}" if self.checkout else ""
        own = ", ".join(f"{name} {value:g}" for name, value in self.official.items())
        lines = [f"{self.how}, {self.evaluator}{at}; judge: {self.judge or 'not known'}"]
        return [*lines, f"figures of the evaluator: {own}"] if own else lines


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
        values: Values by item and metric. A metric that does not apply to an item is missing.
    """

    benchmark: str
    title: str
    judged: JudgeInfo
    terms: str
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
    metrics = benchmark.metrics
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
    """Return the context of the figures: benchmark, judge, terms, models, settings and version.

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
        *(f"{one}: {setting.models.get(one)}" for one in models),
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


class MetricComparison(BaseModel):
    """Comparison of one metric.

    Attributes:
        difference: Mean of second minus first.
        low: Lower bound of the 95 % interval; `None` if no item has the metric in both folders.
        high: Upper bound of the 95 % interval.
        p: McNemar's p for yes-or-no metrics.
        n: Number of pairs.
        changed: Number of items whose value changed.
        largest: Items with the largest changes, with both values.
    """

    metric: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    changed: int
    largest: list[tuple[str, float, float]]


def _alike(folders: Sequence[Path]) -> list[BenchmarkScores]:
    """Read the scores of folders whose figures can be compared.

    Raises:
        SettingsError: If a folder has no scores, another benchmark or other data, or was judged differently.
    """
    scores = [read_scores(folder) for folder in folders]
    if any(one.judged.how == OWN_QUESTIONS for one in scores) and len(scores) > 1:
        raise SettingsError(
            "Scores by the own questions of 0.3.0 cannot be compared: what was asked is not known here.",
            "Score the folders with --official.",
        )
    for folder, one in zip(folders[1:], scores[1:], strict=True):
        for name in ("benchmark", "data_digest"):
            if getattr(one.setting, name) != getattr(scores[0].setting, name):
                raise SettingsError(
                    f"{str(folders[0])!r} and {str(folder)!r} cannot be compared: they have a different "
                    f"{name.replace('_', ' ')}.",
                    "Choose folders of the same benchmark and data.",
                )
        if one.judged.is_like != scores[0].judged.is_like:
            raise SettingsError(
                f"{str(folders[0])!r} and {str(folder)!r} were judged differently: "
                f"{scores[0].judged.lines()[0]} | {one.judged.lines()[0]}.",
                "Score both with the same judge and version.",
            )
    return scores


def _metrics(scores: Sequence[BenchmarkScores]) -> dict[str, bool]:
    """Return the metrics of these scores in order, and whether each is a yes-or-no metric."""
    return {figure.metric: figure.yes_no for one in scores for figure in one.figures}


def _differing(scores: Sequence[BenchmarkScores]) -> dict[str, list[str]]:
    """Return the models and settings that differ between these scores, with each value."""
    flat = [
        {**one.setting.models, **one.setting.settings.model_dump(), "preset": one.setting.preset}
        for one in scores
    ]
    names = dict.fromkeys(name for one in flat for name in one)
    found = {name: [str(one.get(name)) for one in flat] for name in names}
    return {name.replace("_", " "): values for name, values in found.items() if len(set(values)) > 1}


def compare(first: Path, second: Path) -> list[MetricComparison]:
    """Compare the second folder with the first; metrics that both have come first.

    Raises:
        SettingsError: As in `table`, and if no item has a value of any metric in both.
    """
    one, other = _alike((first, second))
    metrics = _metrics((one, other))
    found = [_compared(metric, yes_no, one, other) for metric, yes_no in metrics.items()]
    if not any(compared.n for compared in found):
        raise SettingsError(
            f"{str(first)!r} and {str(second)!r} have no metric with values for the same item.",
            "Score both with the same evaluators.",
        )
    return sorted(found, key=lambda compared: not compared.n)


def _compared(metric: str, yes_no: bool, one: BenchmarkScores, other: BenchmarkScores) -> MetricComparison:
    pairs = {
        name: (values[metric], other.values[name][metric])
        for name, values in one.values.items()
        if metric in values and metric in other.values.get(name, {})
    }
    if not pairs:
        nothing = dict.fromkeys(("difference", "low", "high", "p"))
        return MetricComparison(metric=metric, n=0, changed=0, largest=[], **nothing)
    changed = sorted(
        ((name, *pair) for name, pair in pairs.items() if pair[0] != pair[1]),
        key=lambda found: (-abs(found[2] - found[1]), found[0]),
    )
    if yes_no:
        found = paired_difference(
            [pair[1] == 1.0 for pair in pairs.values()], [pair[0] == 1.0 for pair in pairs.values()]
        )
        figures = {"difference": found.difference, "low": found.low, "high": found.high, "p": found.p}
    else:
        groups: dict[str, list[float]] = {}
        for name, (before, after) in pairs.items():
            groups.setdefault(one.categories[name], []).append(after - before)
        is_share = all(0 <= value <= 1 for pair in pairs.values() for value in pair)
        mean = stratified_means(groups, bounds=OF_DIFFERENCES if is_share else UNBOUNDED).items
        figures = {"difference": mean.mean, "low": mean.low, "high": mean.high, "p": None}
    return MetricComparison(
        metric=metric,
        n=len(pairs),
        changed=len(changed),
        largest=[(name, before, after) for name, before, after in changed[:MAX_SHOWN]],
        **figures,
    )


def comparison_lines(found: list[MetricComparison]) -> list[str]:
    """Return a Markdown table, followed by the items that changed most in the first metric."""
    lines = ["| metric | difference | 95 % interval | McNemar p | pairs | changed |", "|---" * 6 + "|"]
    for one in found:
        p = "" if one.p is None else f"{one.p:.2g}"
        difference, interval = _shown_difference(one)
        lines.append(table_row([one.metric, difference, interval, p, str(one.n), str(one.changed)]))
    if found and found[0].largest:
        lines += ["", f"| item | {found[0].metric} before | after |", "|---|---|---|"]
        lines += [
            table_row([name, f"{before:.3f}", f"{after:.3f}"]) for name, before, after in found[0].largest
        ]
    return lines


def _shown_difference(one: MetricComparison) -> tuple[str, str]:
    """Format the difference and its interval for a table."""
    if one.difference is None or one.low is None or one.high is None:
        return NONE, NONE
    return f"{one.difference:+.3f}", f"{one.low:+.3f} to {one.high:+.3f}"


def table(folders: Sequence[Path]) -> list[str]:
    """Return a head and a Markdown table of several folders, one row per folder.

    Each row shows the settings in which the folder differs, and what the figures cost: attempts, time and the
    share of steps with an unaccepted image.

    Raises:
        SettingsError: If a folder has no scores, another benchmark or other data, or was judged differently,
            or there are fewer than two folders.
    """
    if len(folders) < 2:
        raise SettingsError(
            "A table needs at least two folders.", "List them all: benchmark table OUT1 OUT3 OUT5."
        )
    scores = _alike(folders)
    other = _differing(scores)
    metrics = _metrics(scores)
    spent = ("attempts per item", "seconds per item", "not accepted")
    columns = ["folder", *other, *metrics, *spent, "items"]
    lines = [*head_of(scores[0], skip=other), "", table_row(columns), "|" + "---|" * len(columns)]
    for at, (folder, one) in enumerate(zip(folders, scores, strict=True)):
        means = {figure.metric: figure.items for figure in one.figures}
        forced = f"{one.forced_share:.1%}" if one.had_critic else "no critic"
        bought = (f"{one.draws_an_item:.2f}", f"{one.seconds_an_item:.2f}", forced)
        figures = [_shown(means.get(metric)) for metric in metrics]
        own = [values[at] for values in other.values()]
        lines.append(table_row([folder.resolve().name, *own, *figures, *bought, str(one.items)]))
    return lines


def _shown(mean: Mean | None) -> str:
    return NONE if mean is None else f"{mean.mean:.3f} ({mean.low:.3f} to {mean.high:.3f})"

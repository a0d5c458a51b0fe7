"""Compares two folders of one benchmark item by item.

Only items that both folders have count, and the data must have the same digest, so that a difference comes
from the settings. Yes-or-no metrics get McNemar's exact test. A metric that only one folder was scored in has
no difference, and its row shows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from ...backend.errors import SettingsError
from ...training.statistics.bootstrap import OF_DIFFERENCES, UNBOUNDED, stratified_means
from ...training.statistics.intervals import paired_difference
from .scores import NONE, BenchmarkScores, read_scores, table_row

MAX_SHOWN = 20


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


def alike(folders: Sequence[Path]) -> list[BenchmarkScores]:
    """Read the scores of folders whose figures can be compared.

    Raises:
        SettingsError: If a folder has no scores, another benchmark or other data, or was judged differently.
    """
    scores = [read_scores(folder) for folder in folders]
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


def metrics_of(scores: Sequence[BenchmarkScores]) -> dict[str, bool]:
    """Return the metrics of these scores in order, and whether each is a yes-or-no metric."""
    return {figure.metric: figure.yes_no for one in scores for figure in one.figures}


def differing(scores: Sequence[BenchmarkScores]) -> dict[str, list[str]]:
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
        SettingsError: As in `alike`, and if no item has a value of any metric in both.
    """
    one, other = alike((first, second))
    metrics = metrics_of((one, other))
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


def as_lines(found: list[MetricComparison]) -> list[str]:
    """Return a Markdown table, followed by the items that changed most in the first metric."""
    lines = ["| metric | difference | 95 % interval | McNemar p | pairs | changed |", "|---" * 6 + "|"]
    for one in found:
        p = "" if one.p is None else f"{one.p:.2g}"
        difference, interval = shown(one)
        lines.append(table_row([one.metric, difference, interval, p, str(one.n), str(one.changed)]))
    if found and found[0].largest:
        lines += ["", f"| item | {found[0].metric} before | after |", "|---|---|---|"]
        lines += [
            table_row([name, f"{before:.3f}", f"{after:.3f}"]) for name, before, after in found[0].largest
        ]
    return lines


def shown(one: MetricComparison) -> tuple[str, str]:
    """Format the difference and its interval for a table."""
    if one.difference is None or one.low is None or one.high is None:
        return NONE, NONE
    return f"{one.difference:+.3f}", f"{one.low:+.3f} to {one.high:+.3f}"

"""The figures of a benchmark: values of its items, means with intervals, and a table for people.

Decisions. An item without an answer is zero in every metric, and so is one that the evaluator says nothing
about; how many of either there are stands in the head. Values of single items are kept, so that two folders
can be compared item by item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ....backend.errors import SettingsError
from ....backend.files.atomic import write_text
from ....backend.files.bounded_reader import read_json
from ..bootstrap import Mean, stratified_means
from ..intervals import share
from .collect import SUBMISSION, Collected, read_collected
from .kinds.benchmark import Benchmark, Values
from .setting import Setting, open_folder

FILE = "scores.json"
TABLE = "scores.md"


class Figure(BaseModel):
    """A metric: its mean over all items, over the categories' means, and in each category."""

    metric: str
    yes_no: bool
    items: Mean
    macro: Mean
    categories: dict[str, Mean]


class Judged(BaseModel):
    """By whom an official evaluator was run: the judge, the commit of the checkout, and the evaluator's own
    figures by name."""

    judge: str
    checkout: str
    official: dict[str, float] = {}


class Scores(BaseModel):
    """The content of scores.json; `unscored`: answers that the evaluator said nothing about; `values`: by
    item and metric; a metric that does not apply to an item is missing there; `judged`: where the evaluator
    was run by this package."""

    benchmark: str
    title: str
    judged_by: str
    setting: Setting
    items: int
    of: int
    gaps: int
    unscored: int
    draws_an_item: float
    seconds_an_item: float
    forced_share: float
    figures: list[Figure]
    categories: dict[str, str]
    values: dict[str, dict[str, float]]
    judged: Judged | None = None


def score(out: Path, results: Path | None = None, judged: Judged | None = None) -> Scores:
    """The figures of a collected folder, from the evaluator's results where it has an evaluator of its own;
    written to `out`/scores.json and scores.md. Raises SettingsError."""
    setting, benchmark, items = open_folder(out)
    collected = read_collected(out)
    if {one.id for one in collected} != {item.id for item in items}:
        raise SettingsError(f"{str(out)!r} was run further since.", "Call benchmark collect again.")
    found = benchmark.values(out / SUBMISSION, results, items)
    if not set(found) & {item.id for item in items}:
        raise SettingsError(
            "The results say nothing about any of these items.", "Are they of this submission?"
        )
    whole = len(benchmark.items(setting.where()))
    scores = _scores(setting, benchmark, collected, found, whole).model_copy(update={"judged": judged})
    write_text(out / FILE, scores.model_dump_json(indent=1) + "\n", SettingsError, "Scores")
    write_text(out / TABLE, "\n".join(as_lines(scores)) + "\n", SettingsError, "Table")
    return scores


def _scores(
    setting: Setting,
    benchmark: Benchmark,
    collected: Sequence[Collected],
    found: Mapping[str, Values],
    whole: int,
) -> Scores:
    zero = dict.fromkeys(benchmark.metrics, 0.0)
    values = {one.id: dict(zero if one.gap else found.get(one.id) or zero) for one in collected}
    categories = {one.id: one.category for one in collected}
    run = [one for one in collected if one.steps]
    drawn = sum(one.drawn_steps for one in run)
    return Scores(
        benchmark=setting.benchmark,
        title=benchmark.terms.title,
        judged_by=benchmark.terms.evaluator,
        setting=setting,
        items=len(collected),
        of=whole,
        gaps=sum(bool(one.gap) for one in collected),
        unscored=sum(not one.gap and not found.get(one.id) for one in collected),
        draws_an_item=sum(one.draws for one in run) / max(1, len(run)),
        seconds_an_item=sum(one.seconds for one in run) / max(1, len(run)),
        forced_share=sum(one.forced for one in run) / max(1, drawn),
        figures=[
            _figure(metric, metric in benchmark.yes_no, values, categories) for metric in benchmark.metrics
        ],
        categories=categories,
        values=values,
    )


def _figure(
    metric: str, yes_no: bool, values: Mapping[str, Mapping[str, float]], categories: Mapping[str, str]
) -> Figure:
    groups: dict[str, list[float]] = {}
    for name, one in values.items():
        if metric in one:
            groups.setdefault(categories[name], []).append(one[metric])
    if not groups:
        raise SettingsError(f"No item has a value of {metric!r}.", "Are these the evaluator's results?")
    means = stratified_means(groups)
    one_group = _share if yes_no else _mean
    return Figure(
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


def as_lines(scores: Scores) -> list[str]:
    """The head and the table."""
    setting = scores.setting
    lines = [
        f"{scores.title}, judged by: {scores.judged_by}",
        ", ".join(f"{role} {setting.models.get(role)}" for role in ("planner", "critic", "generator")),
        f"preset {setting.preset}, attempts {setting.settings.max_attempts}, seed {setting.settings.seed}, "
        f"interleave-thinker {setting.version} ({setting.commit[:12]})",
        f"{scores.items} of {scores.of} items; {scores.gaps} gaps and {scores.unscored} unscored count zero",
        f"{scores.draws_an_item:.2f} draws and {scores.seconds_an_item:.2f} s an item; "
        f"{scores.forced_share:.1%} of drawn steps kept an image that the critic did not accept",
        "",
        "| metric | category | mean | 95 % interval | items |",
        "|---|---|---|---|---|",
    ]
    if scores.judged is not None:
        lines[1:1] = _judged_lines(scores.judged)
    if scores.items < scores.of or setting.split:
        lines.insert(4, "Only a part of the benchmark: not to be set beside published figures.")
    for figure in scores.figures:
        lines.append(_row(figure.metric, "all items", figure.items))
        if len(figure.categories) > 1:
            lines.append(_row(figure.metric, "mean of categories", figure.macro))
            lines += [_row(figure.metric, name, mean) for name, mean in figure.categories.items()]
    return lines


def _judged_lines(judged: Judged) -> list[str]:
    own = ", ".join(f"{name} {value:g}" for name, value in judged.official.items())
    lines = [f"official code at {judged.checkout[:12]}, unchanged; judge {judged.judge}"]
    return [*lines, f"the evaluator's own figures: {own}"] if own else lines


def _row(metric: str, category: str, mean: Mean) -> str:
    return f"| {metric} | {category} | {mean.mean:.3f} | {mean.low:.3f} to {mean.high:.3f} | {mean.n} |"


def read_scores(out: Path) -> Scores:
    """What `score` wrote; raises SettingsError."""
    try:
        return Scores.model_validate(read_json(out / FILE, SettingsError, "Scores"))
    except ValidationError as error:
        raise SettingsError(f"{str(out / FILE)!r} is damaged.", "Call benchmark score again.") from error

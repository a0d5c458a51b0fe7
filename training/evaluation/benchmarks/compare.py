"""Two folders of one benchmark, item by item.

Decision: only items that both have count, and the data must be the same by its digest: a difference is then
one of the settings. Metrics of yes and no get McNemar's exact test.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from ....backend.errors import SettingsError
from ..bootstrap import stratified_means
from ..intervals import paired
from .figures import Scores, read_scores

MOST_SHOWN = 20


class Compared(BaseModel):
    """A metric: mean difference of the second folder to the first, its 95 % interval, McNemar's p for yes and
    no; the items whose value changed most, with both values."""

    metric: str
    difference: float
    low: float
    high: float
    p: float | None
    n: int
    changed: int
    largest: list[tuple[str, float, float]]


def alike(folders: Sequence[Path]) -> list[Scores]:
    """The scores of folders whose figures may stand beside each other. Raises SettingsError for folders
    without scores, of other benchmarks or data, and where they were not judged alike."""
    scores = [read_scores(folder) for folder in folders]
    for folder, one in zip(folders[1:], scores[1:], strict=True):
        for name in ("benchmark", "data_digest"):
            if getattr(one.setting, name) != getattr(scores[0].setting, name):
                raise SettingsError(
                    f"{str(folders[0])!r} and {str(folder)!r} are of another {name.replace('_', ' ')}."
                )
        if one.judged.is_like != scores[0].judged.is_like:
            raise SettingsError(
                f"{str(folders[0])!r} and {str(folder)!r} were not judged alike: "
                f"{scores[0].judged.lines()[0]}, and {one.judged.lines()[0]}.",
                "Score them in the same way.",
            )
    return scores


def differing(scores: Sequence[Scores]) -> dict[str, list[str]]:
    """Models and settings that are not the same in all of these, with the value of each."""
    flat = [
        {**one.setting.models, **one.setting.settings.model_dump(), "preset": one.setting.preset}
        for one in scores
    ]
    names = dict.fromkeys(name for one in flat for name in one)
    found = {name: [str(one.get(name)) for one in flat] for name in names}
    return {name.replace("_", " "): values for name, values in found.items() if len(set(values)) > 1}


def compare(first: Path, second: Path) -> list[Compared]:
    """How the second folder differs from the first. Raises SettingsError as `alike`."""
    one, other = alike((first, second))
    return [_compared(figure.metric, figure.yes_no, one, other) for figure in one.figures]


def _compared(metric: str, yes_no: bool, one: Scores, other: Scores) -> Compared:
    pairs = {
        name: (values[metric], other.values[name][metric])
        for name, values in one.values.items()
        if metric in values and metric in other.values.get(name, {})
    }
    if not pairs:
        raise SettingsError(f"No item has a value of {metric!r} in both folders.")
    changed = sorted(
        ((name, *pair) for name, pair in pairs.items() if pair[0] != pair[1]),
        key=lambda found: (-abs(found[2] - found[1]), found[0]),
    )
    if yes_no:
        found = paired(
            [pair[1] == 1.0 for pair in pairs.values()], [pair[0] == 1.0 for pair in pairs.values()]
        )
        figures = {"difference": found.difference, "low": found.low, "high": found.high, "p": found.p}
    else:
        groups: dict[str, list[float]] = {}
        for name, (before, after) in pairs.items():
            groups.setdefault(one.categories[name], []).append(after - before)
        mean = stratified_means(groups).items
        figures = {"difference": mean.mean, "low": mean.low, "high": mean.high, "p": None}
    return Compared(
        metric=metric,
        n=len(pairs),
        changed=len(changed),
        largest=[(name, before, after) for name, before, after in changed[:MOST_SHOWN]],
        **figures,
    )


def as_lines(found: list[Compared]) -> list[str]:
    """A table, and the items that changed most in the first metric."""
    lines = ["| metric | difference | 95 % interval | McNemar p | pairs | changed |", "|---" * 6 + "|"]
    for one in found:
        p = "" if one.p is None else f"{one.p:.2g}"
        lines.append(
            f"| {one.metric} | {one.difference:+.3f} | {one.low:+.3f} to {one.high:+.3f} | {p} | {one.n} "
            f"| {one.changed} |"
        )
    if found and found[0].largest:
        lines += ["", f"| item | {found[0].metric} before | after |", "|---|---|---|"]
        lines += [f"| {name} | {before:.3f} | {after:.3f} |" for name, before, after in found[0].largest]
    return lines

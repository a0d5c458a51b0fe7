"""Several folders of one benchmark in one table: what an ablation shows, a line a folder.

Decision: what a folder differs in stands in its line, so that no name has to be believed; draws, seconds and
the share of steps that kept an image nobody accepted stand beside the figures, since they are what the
figures were bought with. A metric that not every folder was scored in has a column, and a dash where it is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....backend.errors import SettingsError
from ....training.statistics.bootstrap import Mean
from ..comparison import alike, differing, metrics_of
from ..scores import NONE, head_of, table_row

NAMES = {"max attempts": "attempts"}


def table(folders: Sequence[Path]) -> list[str]:
    """A head and a table in Markdown. Raises SettingsError as `alike`, and for fewer than two folders."""
    if len(folders) < 2:
        raise SettingsError("A table needs two folders.", "Name them all: benchmark table OUT1 OUT3 OUT5.")
    scores = alike(folders)
    other = differing(scores)
    metrics = metrics_of(scores)
    spent = ("draws an item", "seconds an item", "not accepted")
    columns = ["folder", *(NAMES.get(name, name) for name in other), *metrics, *spent, "items"]
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

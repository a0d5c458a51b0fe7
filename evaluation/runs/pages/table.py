"""Table of several folders of one benchmark, one row per folder, for ablations.

Each row shows the settings in which the folder differs, so that it does not depend on folder names. Attempts,
time and the share of steps with an unaccepted image are shown too, because they are the cost of the figures.
A metric that some folders were not scored in has a column with a dash there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....backend.errors import SettingsError
from ....training.statistics.bootstrap import Mean
from ..comparison import alike, differing, metrics_of
from ..scores import NONE, head_of, table_row


def table(folders: Sequence[Path]) -> list[str]:
    """Return a head and a Markdown table.

    Raises:
        SettingsError: As in `alike`, and for fewer than two folders.
    """
    if len(folders) < 2:
        raise SettingsError(
            "A table needs at least two folders.", "List them all: benchmark table OUT1 OUT3 OUT5."
        )
    scores = alike(folders)
    other = differing(scores)
    metrics = metrics_of(scores)
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

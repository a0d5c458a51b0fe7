"""Web page that shows the items that differ most between two folders: request, both answers and their scores.

Figures show how large a difference is; looking at the answers shows why. The page is self-contained and looks
like the page of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.exporters.layout.page_images import shown_image
from ....backend.exporters.page import rendered
from ....backend.files.atomic import write_text
from ....backend.loop.replay import load_trajectory
from ....backend.pictures import Picture
from ....backend.report.export_options import PLAIN
from ....training.data.trajectories.unit import is_done
from ...benchmarks.base.benchmark import BenchmarkItem, ItemAnswer
from ...licences import ROLES
from ..comparison import MAX_SHOWN, MetricComparison, compare, differing, metrics_of, shown
from ..running import row_of
from ..scores import BenchmarkScores, read_scores
from ..settings import ITEMS, open_folder

HERE = Path(__file__).parent
TEMPLATE = "comparison.html.j2"
SIDE = 512
"""Maximum size of an image in pixels: twenty items with two answers can have 200 images."""
MAX_TEXT = 4000


def write(first: Path, second: Path, page: Path) -> Path:
    """Write the comparison of two scored folders to `page` and return its path.

    Raises:
        SettingsError: If the folders cannot be compared or the page cannot be written.
        JournalError: If a run is damaged.
    """
    found = compare(first, second)
    sides = [(folder, read_scores(folder)) for folder in (first, second)]
    _, _, items = open_folder(first)
    by_id = {item.id: item for item in items}
    chosen = [by_id[name] for name in _largest(found) if name in by_id]
    content = rendered(
        TEMPLATE,
        PLAIN.words,
        HERE,
        title=sides[0][1].title,
        sides=[_side(folder, scores) for folder, scores in sides],
        settings=[(name, *values) for name, values in differing([scores for _, scores in sides]).items()],
        figures=[(one, shown(one)) for one in found],
        items=[_item(item, sides) for item in chosen],
        changed=found[0].changed if found else 0,
    )
    write_text(page, content, SettingsError, "Page")
    return page


def _largest(found: Sequence[MetricComparison]) -> list[str]:
    """Return the items with the largest differences in the first metric, then in the others."""
    names = dict.fromkeys(name for one in found for name, _, _ in one.largest)
    return list(names)[:MAX_SHOWN]


def _side(folder: Path, scores: BenchmarkScores) -> dict[str, Any]:
    setting = scores.setting
    about = [("judged by", scores.judged.lines()[0])]
    about += [(role, str(setting.models.get(role))) for role in ROLES]
    about += [("items", f"{scores.items}, {scores.gaps} without an answer")]
    about += [
        ("attempts per item", f"{scores.draws_an_item:.2f}"),
        ("seconds per item", f"{scores.seconds_an_item:.1f}"),
    ]
    return {"name": folder.resolve().name, "about": about}


def _item(item: BenchmarkItem, sides: Sequence[tuple[Path, BenchmarkScores]]) -> dict[str, Any]:
    values = [scores.values.get(item.id, {}) for _, scores in sides]
    metrics = [
        (metric, *(value.get(metric) for value in values))
        for metric in metrics_of([scores for _, scores in sides])
    ]
    return {
        "id": item.id,
        "category": item.category,
        "text": item.text[:MAX_TEXT],
        "images": [shown_image(Picture.open(path), SIDE, lossless=0) for path in item.images],
        "metrics": [
            (name, _points(before), _points(after), _tone(before, after)) for name, before, after in metrics
        ],
        "answers": [_answer(folder, item, scores) for folder, scores in sides],
    }


def _answer(folder: Path, item: BenchmarkItem, scores: BenchmarkScores) -> dict[str, Any]:
    run = folder / ITEMS / row_of(item).folder
    steps: list[dict[str, Any]] = []
    if is_done(run):
        for step in ItemAnswer.of(load_trajectory(run)).steps:
            picture = step.picture and shown_image(step.picture, SIDE, lossless=0)
            steps.append({"text": step.text[:MAX_TEXT], "picture": picture})
    return {"name": folder.resolve().name, "steps": steps}


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def _tone(before: float | None, after: float | None) -> str:
    if before is None or after is None or before == after:
        return ""
    return "good" if after > before else "bad"

"""RISEBench: images edited by instructions that require reasoning.

The official evaluator resumes from a pickle, and loading a pickle runs code. It is therefore never read here.
Values of single items come from the table that `score --official` makes the evaluator write. The evaluator's
other outputs are a spreadsheet and means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from ....backend.errors import SettingsError
from ....training.data.rows.values import RowProblem, read_values
from ..base.benchmark import BenchmarkData, BenchmarkItem, BenchmarkTerms, Values
from ..base.one_image import OneImageBenchmark
from ..base.rows import ImageFinder, checked, data_path, id_in, read_rows, text_in

FIELDS = ("index", "category", "instruction", "image")
MORE = ("reference", "reference_txt", "reference_img", "consistency_free", "reasoning_img")
LOGICAL = "logical_reasoning"
TABLE = "items.jsonl"
ENDINGS = ("png", "jpg", "jpeg")
"""In the order in which the evaluator looks for them."""


class Rise(OneImageBenchmark):
    """RISEBench: 360 edits in four categories."""

    metrics = ("accuracy", "score")
    yes_no = frozenset({"accuracy"})
    terms = BenchmarkTerms(
        title="RISEBench",
        evaluator="PhoenixZ810/RISEBench @ 5f22651",
        data="huggingface.co/datasets/PhoenixZ810/RISEBench (its JSON and images).",
        licences="the repository names none; outputs in it are MIT.",
    )

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return one item per edit, with its source image."""
        path = data_path(data, "rise", self.terms)
        folder = path if path.is_dir() else path.parent
        images = ImageFinder(folder, data.images)
        items = [
            BenchmarkItem(
                id_in(row, "index"),
                text_in(row, "instruction"),
                images.find([row["image"]]),
                text_in(row, "category"),
                {name: _value(row.get(name)) for name in MORE},
            )
            for row in read_rows(path, FIELDS, MORE)
        ]
        return checked(items, data.split)

    def judge_calls(self, item: BenchmarkItem) -> int:
        """Count reasoning, consistency (if the item requires it) and image quality (if not logical)."""
        return 1 + (item.row.get("consistency_free") is None) + (item.category != LOGICAL)

    def files(self, folder: Path, item: BenchmarkItem) -> list[Path]:
        """Return the possible paths of an item's image, in the evaluator's order."""
        return [folder / "images" / item.category / f"{item.id}.{ending}" for ending in ENDINGS]

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Read the table written by `score --official`.

        Accuracy is 0 or 1, and points from 1 to 5 become a share. An item whose judgment could not be read
        has neither.
        """
        if results is None or results.name != TABLE:
            raise SettingsError(
                "RISEBench's evaluator stores its results as a pickle, which is never read for safety, "
                "and a spreadsheet.",
                "Run it with score --official CHECKOUT, or take the means from its ..._judge.csv.",
            )
        found: dict[str, Values] = {}
        for place, row in read_values(results):
            if isinstance(row, RowProblem) or not isinstance(row, dict):
                raise SettingsError(f"{str(results)!r}, {place}, is not a row of the evaluator's table.")
            complete, points = row.get("complete"), row.get("score")
            if complete in (0, 1) and isinstance(points, int | float) and 0 <= points <= 5:
                share = max(0.0, (float(points) - 1) / 4)
                found[str(row.get("index"))] = {"accuracy": float(complete), "score": share}
        return found


def _value(value: object) -> object:
    """Replace NaN by `None` in a field of a table."""
    return None if isinstance(value, float) and math.isnan(value) else value


BENCHMARK = Rise()

"""RISEBench: images edited by instructions that require reasoning.

The official evaluator resumes from a pickle, and loading a pickle runs code. It is therefore never read here.
Values of single items come from the table that `score --official` makes the evaluator write. The evaluator's
other outputs are a spreadsheet and means.

The judge of its `gpt_eval.py` is set by two constants in its code. The script resumes from a pickle next to
the images, so it gets an empty folder with a link to them. Answers that are already known come from the
bridge's cache. Fields that its code reads but its smaller data set lacks are added empty.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...backend.core.errors import SettingsError
from ...backend.core.files.bounded_reader import read_text
from ...training.rows.values import RowProblem, read_values
from .benchmark import (
    BenchmarkData,
    BenchmarkItem,
    BenchmarkTerms,
    EvaluatorJob,
    EvaluatorPaths,
    EvaluatorPlan,
    Values,
)
from .benchmark_files import (
    ImageFinder,
    OneImageBenchmark,
    checked,
    data_path,
    id_in,
    link,
    numbers_in,
    read_rows,
    text_in,
    write_json,
)

FIELDS = ("index", "category", "instruction", "image")
MORE = ("reference", "reference_txt", "reference_img", "consistency_free", "reasoning_img")
MORE += ("reasoning_wo_ins", "subtask")
READ = ("reasoning_img", "subtask")
TABLE = "items.jsonl"
ENDINGS = ("png", "jpg", "jpeg")
"""In the order in which the evaluator looks for them."""
SCRIPT = "gpt_eval.py"
MAX_FILE = 1024 * 1024
COLUMNS = {"Score-Percentage": "score", "Accuracy": "accuracy"}


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
    files = (SCRIPT, "utils.py")
    needs = ("pandas", "numpy", "requests", "tqdm", "PIL", "xlsxwriter")

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return one item per edit, with its source image."""
        path = data_path(data, "rise", self.terms)
        images = ImageFinder(data.folder, data.images)
        items = [
            BenchmarkItem(
                id_in(row, "index"),
                text_in(row, "instruction"),
                images.find([row["image"]]),
                text_in(row, "category"),
                row,
            )
            for row in read_rows(path, FIELDS, MORE)
        ]
        return checked(items, data.split)

    def places(self, folder: Path, item: BenchmarkItem) -> list[Path]:
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

    def plan(self, place: EvaluatorPaths, items: Sequence[BenchmarkItem]) -> EvaluatorPlan:
        """Return one job that scores all items."""
        folder = place.work / "answers"
        link(folder / "images", place.submission / "images")
        images = ImageFinder(place.data.folder, place.data.images)
        data = write_json(place.work / "data.json", [_row(item, images) for item in items])
        table = place.work / TABLE
        more = {
            "key": place.token,
            "address": f"{place.address}/v1/chat/completions",
            "table": str(table),
        }
        argv = ["--data", str(data), "--output", str(folder), "--input", "/", "--model", "judge"]
        argv += ["--nproc", str(place.workers)]
        job = EvaluatorJob(place.checkout / SCRIPT, argv, place.work / "in", kind="rise", more=more)
        return EvaluatorPlan([job], table, lambda: _overall(folder / "judge_judge.csv"))


def _row(item: BenchmarkItem, images: ImageFinder) -> dict[str, Any]:
    found = {**dict.fromkeys(READ), **item.row, "image": str(item.images[0].resolve())}
    if item.row.get("reference_img"):
        found["reference_img"] = str(images.find([item.row["reference_img"]])[0].resolve())
    return found


def _overall(path: Path) -> dict[str, float]:
    rows = csv.DictReader(io.StringIO(read_text(path, MAX_FILE, SettingsError, "Evaluator's figures")))
    try:
        overall = next((row for row in rows if row.get("-") == "Overall"), {})
        found = {name: float(overall[name]) for name in COLUMNS if overall.get(name)}
    except (ValueError, csv.Error) as error:
        raise SettingsError(
            f"{str(path)!r} does not contain the expected numbers.", "Read the evaluator's log for the cause."
        ) from error
    return numbers_in(found, COLUMNS)


BENCHMARK = Rise()

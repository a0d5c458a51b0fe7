"""Runs RISEBench's `gpt_eval.py`, whose judge is set by two constants in its code.

The script resumes from a pickle next to the images, so it gets an empty folder with a link to them. Answers
that are already known come from the bridge's cache. Fields that its code reads but its smaller data set lacks
are added empty.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.files.bounded_reader import read_text
from ..base.benchmark import BenchmarkItem
from ..base.evaluator import EvaluatorPaths, EvaluatorPlan, Row, link, numbers_in, write_json
from ..base.processes import EvaluatorJob
from ..base.rows import ImageFinder
from .items import TABLE

SCRIPT = "gpt_eval.py"
READ = ("reasoning_img", "subtask")
MAX_FILE = 1024 * 1024
COLUMNS = {"Score-Percentage": "score", "Accuracy": "accuracy"}


class RiseEvaluator:
    """Evaluator of PhoenixZ810/RISEBench."""

    files = (SCRIPT, "utils.py")
    needs = ("pandas", "numpy", "requests", "tqdm", "PIL", "xlsxwriter")

    def plan(
        self, place: EvaluatorPaths, items: Sequence[BenchmarkItem], rows: Mapping[str, Row]
    ) -> EvaluatorPlan:
        """Return one job that scores all items."""
        folder = place.work / "answers"
        link(folder / "images", place.submission / "images")
        data = write_json(
            place.work / "data.json", [_row(rows[item.id], item, _images(place)) for item in items]
        )
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


def _images(place: EvaluatorPaths) -> ImageFinder:
    path = place.data.path or Path()
    return ImageFinder(path if path.is_dir() else path.parent, place.data.images)


def _row(row: Row, item: BenchmarkItem, images: ImageFinder) -> dict[str, Any]:
    found = {**dict.fromkeys(READ), **row, "image": str(item.images[0].resolve())}
    if row.get("reference_img"):
        found["reference_img"] = str(images.find([row["reference_img"]])[0].resolve())
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


EVALUATOR = RiseEvaluator()

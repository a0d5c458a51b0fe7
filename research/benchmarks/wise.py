"""WISE (Verified): one image for a prompt that requires knowledge, judged correct or incorrect.

The first version of WISE (0 to 2 points, other prompts) is a different benchmark. Its data are recognized and
rejected by name.

The evaluator's `vllm_eval.py` runs on all categories at once. Its `calculate_verified.py` reports a score
only if all 1,000 prompts are present, so it is not run on a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...backend.core.errors import SettingsError
from ...backend.core.files.bounded_reader import read_bytes
from ...training.rows.values import RowProblem, read_values
from .benchmark import (
    LOG,
    BenchmarkData,
    BenchmarkItem,
    BenchmarkTerms,
    EvaluatorJob,
    EvaluatorPaths,
    EvaluatorPlan,
    Values,
)
from .benchmark_files import OneImageBenchmark, checked, data_path, given, read_rows, text_in, write_json

CATEGORIES = (
    (400, "culture"),
    (520, "time"),
    (640, "space"),
    (760, "biology"),
    (880, "physics"),
    (1000, "chemistry"),
)
"""Last id of each category.

The official weights, 0.40 and five times 0.12, equal the categories' shares of the 1,000 prompts. The mean
over all items is therefore the official overall score.
"""
LEGACY = "WISE_legacy"
LEGACY_ENDS = {"time": 520, "Space": 640, "Biology": 760, "Physical Knowledge": 880}
"""Last id of each category name in the data; the first version has higher ones."""
SCRIPT, CALCULATOR, SCORES = "vllm_eval.py", "calculate_verified.py", "scores.jsonl"
OVERALL = re.compile(rb"^Overall WiScore: (\d+(?:\.\d+)?)\s*$", re.MULTILINE)
MAX_LOG = 256 * 1024 * 1024


class Wise(OneImageBenchmark):
    """WISE Verified: 1,000 prompts in six categories."""

    metrics = ("right",)
    yes_no = frozenset({"right"})
    terms = BenchmarkTerms(
        title="WISE (Verified)",
        evaluator="PKU-YuanGroup/WISE @ eb51174",
        data="github.com/PKU-YuanGroup/WISE, folder data_verified (merge.json).",
        licences="the repository names none.",
    )
    files = (SCRIPT, CALCULATOR)
    needs = ("requests",)

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return one item per prompt."""
        path = data_path(data, "wise", self.terms, "data_verified/merge.json", "merge.json")
        rows = read_rows(path, ("Prompt", "Explanation", "prompt_id"), ("Category", "Subcategory"))
        if LEGACY in path.absolute().parts or any(map(_is_legacy, rows)):
            raise SettingsError(
                f"{str(path)!r} belongs to WISE's first version, which is a different benchmark.",
                "Use data_verified/merge.json.",
            )
        return checked([_item(row) for row in rows], data.split)

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Read the evaluator's `..._scores_results.jsonl`, or a folder with several of them."""
        path = given(results, "FILE (its ..._scores_results.jsonl, or the folder with all of them)")
        files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        found: dict[str, Values] = {}
        for file in files:
            for place, row in read_values(file):
                score = None if isinstance(row, RowProblem) or not isinstance(row, dict) else row.get("score")
                if score not in (0, 1) or isinstance(row, RowProblem):
                    raise SettingsError(
                        f"{str(file)!r}, {place}, has no score of 0 or 1.",
                        "Pass the evaluator's ..._scores_results.jsonl.",
                    )
                found[str(row.get("prompt_id"))] = {"right": float(score)}
        return found

    def plan(self, place: EvaluatorPaths, items: Sequence[BenchmarkItem]) -> EvaluatorPlan:
        """Return the evaluation and, for all 1,000 prompts, the calculation."""
        prompts = write_json(place.work / "prompts.json", [dict(item.row) for item in items])
        folder = place.work / "results"
        options = {
            "--json_path": prompts,
            "--image_dir": place.submission.resolve(),
            "--output_dir": folder,
            "--api_key": place.token,
            "--api_base": f"{place.address}/v1",
            "--model": "judge",
            "--result_full": "full.json",
            "--result_scores": SCORES,
            "--max_workers": place.workers,
            "--timeout": int(place.seconds),
        }
        argv = [str(part) for pair in options.items() for part in pair]
        jobs = [EvaluatorJob(place.checkout / SCRIPT, argv, place.work / "in")]
        if len(items) == CATEGORIES[-1][0]:
            calculated = [str(folder / SCORES), "--category", "all"]
            jobs.append(EvaluatorJob(place.checkout / CALCULATOR, calculated, place.work / "in"))
        return EvaluatorPlan(jobs, folder, lambda: _overall(place.work / LOG))


def _is_legacy(row: dict[str, object]) -> bool:
    number, last = row["prompt_id"], LEGACY_ENDS.get(str(row.get("Category")))
    return last is not None and isinstance(number, int) and number > last


def _item(row: dict[str, object]) -> BenchmarkItem:
    number = row["prompt_id"]
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= CATEGORIES[-1][0]:
        raise SettingsError(
            f"{str(number)[:80]!r} is not a prompt_id of WISE Verified (1 to 1000).",
            "Use data_verified/merge.json.",
        )
    category = next(name for last, name in CATEGORIES if number <= last)
    text_in(row, "Explanation")
    return BenchmarkItem(str(number), text_in(row, "Prompt"), category=category, row=row)


def _overall(log: Path) -> dict[str, float]:
    found = OVERALL.findall(read_bytes(log, MAX_LOG, SettingsError, "Evaluator's log"))
    return {"overall WiScore": float(found[-1])} if found else {}


BENCHMARK = Wise()

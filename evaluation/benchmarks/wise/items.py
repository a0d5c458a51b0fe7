"""WISE (Verified): one image for a prompt that needs knowledge, judged right or wrong.

Decision: the first version of this benchmark (0 to 2 points, other prompts) is another one: its data and its
results are recognized, and refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ....backend.errors import SettingsError
from ....training.data.rows.values import RowProblem, read_values
from ..base.benchmark import BenchmarkData, BenchmarkItem, BenchmarkTerms, Values, given
from ..base.one_image import OneImageBenchmark
from ..base.rows import checked, data_path, read_rows, text_in

CATEGORIES = (
    (400, "culture"),
    (520, "time"),
    (640, "space"),
    (760, "biology"),
    (880, "physics"),
    (1000, "chemistry"),
)
"""The last id of each category. Their official weights, 0.40 and five of 0.12, are their shares of the 1,000
prompts, so the mean over all items is the official overall score."""
LEGACY = "WISE_legacy"
LEGACY_ENDS = {"time": 520, "Space": 640, "Biology": 760, "Physical Knowledge": 880}
"""The last id of a category's name in the data; the first version has higher ones."""
LEGACY_PROMPTS = frozenset({"269119c1709c8d56", "deb285c26a74fa8a", "63dca3f95923b2d0"})
"""Digests of three of its prompts of culture, whose ids are those of Verified."""
LEGACY_SCORES = ("consistency", "realism", "aesthetic_quality")
IS_LEGACY = "is of WISE's first version (legacy, 0 to 2 points by GPT-4o), which is another benchmark."
FIELDS = ("Prompt", "Explanation", "prompt_id")


class Wise(OneImageBenchmark):
    """1,000 prompts in six categories."""

    metrics = ("right",)
    yes_no = frozenset({"right"})
    terms = BenchmarkTerms(
        title="WISE (Verified)",
        evaluator="PKU-YuanGroup/WISE @ eb51174",
        data="github.com/PKU-YuanGroup/WISE, folder data_verified (merge.json).",
        licences="the repository names none.",
    )

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        path = data_path(data, "wise", self.terms, "data_verified/merge.json", "merge.json")
        rows = read_rows(path, FIELDS, ("Category",))
        if LEGACY in path.absolute().parts or any(map(_is_legacy, rows)):
            raise SettingsError(f"{str(path)!r} {IS_LEGACY}", "Give data_verified/merge.json.")
        return checked([_item(row) for row in rows], data.split)

    def judge_calls(self, item: BenchmarkItem) -> int:
        return 1

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """From the evaluator's `..._scores_results.jsonl`, or a folder of several."""
        path = given(results, "FILE (its ..._scores_results.jsonl, or the folder with all of them)")
        files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        found: dict[str, Values] = {}
        for file in files:
            for place, row in read_values(file):
                if isinstance(row, dict) and any(name in row for name in LEGACY_SCORES):
                    raise SettingsError(f"{str(file)!r} {IS_LEGACY}", "Evaluate with vllm_eval.py.")
                score = None if isinstance(row, RowProblem) or not isinstance(row, dict) else row.get("score")
                if score not in (0, 1) or isinstance(row, RowProblem):
                    raise SettingsError(
                        f"{str(file)!r}, {place}: no score of 0 or 1.", "Is it the right file?"
                    )
                found[str(row.get("prompt_id"))] = {"right": float(score)}
        return found


def _is_legacy(row: dict[str, object]) -> bool:
    number, prompt = row["prompt_id"], row["Prompt"]
    last = LEGACY_ENDS.get(str(row.get("Category")))
    if last is not None and isinstance(number, int) and number > last:
        return True
    digest = hashlib.blake2b(str(prompt).encode("utf-8", "replace"), digest_size=8)
    return digest.hexdigest() in LEGACY_PROMPTS


def _item(row: dict[str, object]) -> BenchmarkItem:
    number = row["prompt_id"]
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= CATEGORIES[-1][0]:
        raise SettingsError(
            f"{str(number)[:80]!r} is no prompt_id of WISE Verified (1 to 1000).", "Is it the right file?"
        )
    category = next(name for last, name in CATEGORIES if number <= last)
    more = {"Explanation": text_in(row, "Explanation")}
    return BenchmarkItem(str(number), text_in(row, "Prompt"), category=category, row=more)


BENCHMARK = Wise()

"""WISE (Verified): one image for a prompt that needs knowledge, judged right or wrong.

Decision: the first version of this benchmark (0 to 2 points, other prompts) is another one, and is not read
here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .....backend.errors import SettingsError
from ....rows.sft import RowProblem, read_lines
from .benchmark import Data, Item, Terms, Values, given
from .one_picture import OnePicture
from .rows import checked, data_path, read_rows, text_in

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
FIELDS = ("Prompt", "Explanation", "prompt_id")


class Wise(OnePicture):
    """1,000 prompts in six categories."""

    metrics = ("right",)
    yes_no = frozenset({"right"})
    terms = Terms(
        title="WISE (Verified)",
        evaluator="PKU-YuanGroup/WISE @ eb51174",
        data="github.com/PKU-YuanGroup/WISE, folder data_verified (merge.json).",
        licences="the repository names none.",
    )

    def items(self, data: Data) -> list[Item]:
        path = data_path(data, "wise", self.terms, "data_verified/merge.json", "merge.json")
        return checked([_item(row) for row in read_rows(path, FIELDS)], data.split)

    def judge_calls(self, item: Item) -> int:
        return 1

    def values(self, submission: Path, results: Path | None, items: Iterable[Item]) -> dict[str, Values]:
        """From the evaluator's `..._scores_results.jsonl`, or a folder of several."""
        path = given(results, "FILE (its ..._scores_results.jsonl, or the folder with all of them)")
        files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        found: dict[str, Values] = {}
        for file in files:
            for place, row in read_lines(file):
                score = None if isinstance(row, RowProblem) or not isinstance(row, dict) else row.get("score")
                if score not in (0, 1) or isinstance(row, RowProblem):
                    raise SettingsError(
                        f"{str(file)!r}, {place}: no score of 0 or 1.", "Is it the right file?"
                    )
                found[str(row.get("prompt_id"))] = {"right": float(score)}
        return found


def _item(row: dict[str, object]) -> Item:
    number = row["prompt_id"]
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= CATEGORIES[-1][0]:
        raise SettingsError(
            f"{str(number)[:80]!r} is no prompt_id of WISE Verified (1 to 1000).", "Is it the right file?"
        )
    category = next(name for last, name in CATEGORIES if number <= last)
    return Item(str(number), text_in(row, "Prompt"), category=category)


BENCHMARK = Wise()

"""SpecV, interleaved track: stories of text and images, judged by yes-or-no questions.

The official evaluator leaves missing or empty answers out of the average, so failing on hard tasks would
score better than answering them badly. Here a missing answer is a gap and counts zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ....backend.errors import SettingsError
from ..base.benchmark import BenchmarkData, BenchmarkItem, BenchmarkTerms, Values, given
from ..base.content import ContentBenchmark
from ..base.rows import ImageFinder, checked, data_path, id_in, read_rows, results_json, text_in

PLACEHOLDER = re.compile(r"\[IMAGE(\d{1,3})\]")
MARK = "<image>"
INNER = "eval_data/interleave"


class SpecV(ContentBenchmark):
    """SpecV: 200 tasks in four dimensions."""

    metrics = ("as expected",)
    terms = BenchmarkTerms(
        title="SpecV (interleave)",
        evaluator="yuyouxixi/SpecV @ 2af3845",
        data=f"github.com/yuyouxixi/SpecV (the checkout, or its folder {INNER}).",
        licences="its licence file is empty; its README says research use.",
    )

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return one item per task."""
        path = data_path(data, "specv", self.terms, INNER)
        images = ImageFinder(path if path.is_dir() else path.parent, data.images)
        rows = read_rows(path, ("id", "dimension", "question"), ("question_img",))
        items: list[BenchmarkItem] = []
        for row in rows:
            text, order = with_marks(text_in(row, "question"))
            names = row.get("question_img") or []
            if not isinstance(names, list) or any(number > len(names) for number in order):
                raise SettingsError(
                    f"The question {str(row['id'])[:80]!r} refers to an image that its row does not "
                    "have. Check the data file."
                )
            found = images.find([names[number - 1] for number in order] if order else names)
            items.append(BenchmarkItem(id_in(row, "id"), text, found, text_in(row, "dimension")))
        return checked(items, data.split)

    def judge_calls(self, item: BenchmarkItem) -> int:
        """Return 1: the evaluator asks all questions about an item in one call."""
        return 1

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Read the evaluator's `results/MODEL/DIMENSION/ID.json`: lists of questions with their answers."""
        folder = given(results, "FOLDER (its results/MODEL)")
        found: dict[str, Values] = {}
        for item in items:
            path = folder / item.category / f"{item.id}.json"
            if not path.exists():
                continue
            rows = results_json(path)
            if not isinstance(rows, list) or not all(
                isinstance(row, dict) and "expected_answer" in row for row in rows
            ):
                raise SettingsError(
                    f"{str(path)!r} is not a list of questions with expected answers.",
                    "Pass the evaluator's folder results/MODEL.",
                )
            right = [str(row.get("expected_answer")) == str(row.get("answer")) for row in rows]
            found[item.id] = {"as expected": sum(right) / len(right) if right else 0.0}
        return found


def with_marks(question: str) -> tuple[str, list[int]]:
    """Replace the image references of a question by marks.

    Returns:
        The question with marks, and the numbers of the images in their order, from 1.

    Raises:
        SettingsError: If an image has the number 0.
    """
    order = [int(number) for number in PLACEHOLDER.findall(question)]
    if 0 in order:
        raise SettingsError(
            "A question refers to [IMAGE0], but images are counted from 1. Check the data file."
        )
    return PLACEHOLDER.sub(MARK, question), order


BENCHMARK = SpecV()

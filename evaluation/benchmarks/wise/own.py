"""WISE: whether a picture shows what its prompt means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.benchmark import BenchmarkData, BenchmarkItem, Values
from ..base.question import Answers, JudgeQuestion
from .items import BENCHMARK

ASKED = """A picture was made for this request, which leaves something to be known or worked out:
{prompt}

What a right picture shows, by the one who wrote the request:
{explanation}

The picture:"""
WHETHER = """Is that what the picture shows, recognizable without doubt and in all that matters? Beauty and \
style do not count. A picture so broken that it cannot be told is not right. """


class WiseQuestions:
    """One question an item."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        asked = ASKED.format(prompt=item.text, explanation=item.row["Explanation"])
        return [JudgeQuestion("right", (asked, BENCHMARK.files(submission, item)[0], WHETHER))]

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        return {"right": answers["right"] or 0.0}


QUESTIONS = WiseQuestions()

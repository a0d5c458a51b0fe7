"""Own question for WISE: whether an image shows what its prompt means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.benchmark import BenchmarkData, BenchmarkItem, Values
from ..base.question import Answers, JudgeQuestion
from .items import BENCHMARK

ASKED = """An image was generated for this request, which leaves something to knowledge or reasoning:
{prompt}

A correct image shows the following, according to the author of the request:
{explanation}

The image:"""
WHETHER = """Does the image clearly and unmistakably show this, in everything that matters? Ignore beauty \
and style. An image that is too broken to recognize is not correct. """


class WiseQuestions:
    """One question per item."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        """Return the question about an item."""
        asked = ASKED.format(prompt=item.text, explanation=item.row["Explanation"])
        return [JudgeQuestion("right", (asked, BENCHMARK.files(submission, item)[0], WHETHER))]

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        """Return 1 if the image is correct, else 0."""
        return {"right": answers["right"] or 0.0}


QUESTIONS = WiseQuestions()

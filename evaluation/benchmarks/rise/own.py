"""RISEBench: whether an edit kept what it should, shows what it has to, and looks whole.

Decision: each in points of five, as there; an item is right where all it is asked about gets five. Questions
that show two pictures can be asked in both orders, and then get the mean of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....backend.errors import SettingsError
from ..base.benchmark import BenchmarkData, BenchmarkItem, Values
from ..base.question import OF_FIVE, Answers, JudgeQuestion, Part
from ..base.rows import ImageFinder
from .items import BENCHMARK, LOGICAL

INSTRUCTION = "A picture was to be changed as this instruction says:\n{instruction}\n"
BEFORE, AFTER, WANTED = "The picture before:", "The picture that came out:", "A right result:"
KEPT = """How much of what the instruction leaves alone is as it was before? 5: all of it; 3: some of it \
changed; 1: it is another picture. """
REACHED = """What a right result shows:
{reference}

How well does the picture that came out show that? 5: entirely; 3: in part; 1: not at all. """
LIKE = """How well does the picture that came out show the same result as the right one? Style and position \
do not matter where the instruction leaves them open. 5: entirely; 3: in part; 1: not at all. """
WHOLE = """How whole and believable is this picture, whatever it was to show? 5: without a fault; 3: faults \
that one sees; 1: broken. """


class RiseQuestions:
    """Up to three questions an item."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        files = BENCHMARK.files(submission, item)
        after = next((file for file in files if file.exists()), files[0])
        asked = INSTRUCTION.format(instruction=item.text)
        found: list[JudgeQuestion] = []
        if item.row["consistency_free"] is None:
            found.append(_compared("kept", asked, (BEFORE, item.images[0]), (AFTER, after), KEPT))
        reference = item.row["reference_txt"] or item.row["reference"]
        wanted = item.row["reference_img"]
        if wanted:
            path = _wanted(str(wanted), data)
            found.append(_compared("reached", asked, (WANTED, path), (AFTER, after), LIKE))
        else:
            words = REACHED.format(reference=reference or "what the instruction asks for")
            shown = (BEFORE, item.images[0]), (AFTER, after)
            found.append(_compared("reached", asked, *shown, words))
        if item.category != LOGICAL:
            found.append(JudgeQuestion("whole", (AFTER, after, WHOLE), OF_FIVE))
        return found

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        """Accuracy, and the mean of its points as a share."""
        points = [answers[one.key] for one in questions]
        shares = [((point or OF_FIVE.low) - OF_FIVE.low) / (OF_FIVE.high - OF_FIVE.low) for point in points]
        right = all(point == OF_FIVE.high for point in points)
        return {"accuracy": float(right), "score": sum(shares) / len(shares)}


def _compared(
    key: str, asked: str, one: tuple[Part, ...], other: tuple[Part, ...], words: str
) -> JudgeQuestion:
    return JudgeQuestion(key, (asked, *one, *other, words), OF_FIVE, (asked, *other, *one, words))


def _wanted(name: str, data: BenchmarkData) -> Path:
    if data.path is None:
        raise SettingsError("The data has no path.", "Call benchmark rise with --data.")
    folder = data.path if data.path.is_dir() else data.path.parent
    return ImageFinder(folder, data.images).find([name])[0]


QUESTIONS = RiseQuestions()

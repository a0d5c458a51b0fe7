"""Own questions for RISEBench: what the edit preserved, whether it shows the result, and image quality.

As in the official evaluator, each answer is 1 to 5 points, and an item is correct if all its answers are 5.
Questions that compare two images can be asked in both orders; their value is then the mean of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....backend.errors import SettingsError
from ..base.benchmark import BenchmarkData, BenchmarkItem, Values
from ..base.question import OF_FIVE, Answers, JudgeQuestion, Part
from ..base.rows import ImageFinder
from .items import BENCHMARK, LOGICAL

INSTRUCTION = "An image was to be edited according to this instruction:\n{instruction}\n"
BEFORE, AFTER, WANTED = "Image before the edit:", "Image after the edit:", "A correct result:"
KEPT = """How much of what the instruction does not ask to change stayed the same? 5: everything; 3: some \
of it changed; 1: it is a completely different image. """
REACHED = """A correct result shows:
{reference}

How well does the image after the edit show this? 5: completely; 3: partly; 1: not at all. """
LIKE = """How well does the image after the edit show the same result as the correct one? Ignore style and \
position where the instruction leaves them open. 5: completely; 3: partly; 1: not at all. """
WHOLE = """How intact and believable is this image, regardless of what it should show? 5: no flaws; 3: \
visible flaws; 1: broken. """


class RiseQuestions:
    """Up to three questions per item."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        """Return the questions about an item."""
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
            words = REACHED.format(reference=reference or "the result that the instruction asks for")
            shown = (BEFORE, item.images[0]), (AFTER, after)
            found.append(_compared("reached", asked, *shown, words))
        if item.category != LOGICAL:
            found.append(JudgeQuestion("whole", (AFTER, after, WHOLE), OF_FIVE))
        return found

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        """Return accuracy, and the mean of the points as a share."""
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
        raise SettingsError("The path of the data is not known.", "Run benchmark rise with --data PATH.")
    folder = data.path if data.path.is_dir() else data.path.parent
    return ImageFinder(folder, data.images).find([name])[0]


QUESTIONS = RiseQuestions()

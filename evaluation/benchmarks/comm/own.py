"""CoMM: completeness, the pictures' quality, whether they show what the texts say, and three kinds of
coherence, in points of ten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....backend.errors import SettingsError
from ..base.benchmark import BenchmarkData, BenchmarkItem, Values
from ..base.question import OF_TEN, Answers, JudgeQuestion, Part
from ..base.rows import results_object
from .items import FILE, MARK

REQUEST = "Somebody asked for a manual with pictures:"
ANSWER = "What was added, texts and pictures in their order:"
ASKED = {
    "completeness": "How completely does what was added do what was asked, with no step missing?",
    "image quality": "How good are the added pictures as pictures: sharp, whole, believable?",
    "text fidelity": "How well does each added picture show what the text beside it says?",
    "style consistency": "How well do all pictures agree in style, as if by one hand?",
    "entity consistency": "How well do things and people stay the same from picture to picture?",
    "trend consistency": "How well does what happens move on from picture to picture as the texts say?",
}
BEST = " 10 is without a fault, 5 is half, 0 is not at all or nothing that could be judged. "


class CommQuestions:
    """Six questions an item."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        folder = submission / item.id
        content = results_object(folder / FILE)
        found = content.get("prediction_image_list") or []
        if not isinstance(content.get("model_output"), str) or not isinstance(found, list):
            raise SettingsError(
                f"{str(folder / FILE)!r} has no model_output, or no list of images.",
                "Call benchmark collect.",
            )
        names = [folder / Path(str(name)).name for name in found]
        parts = (
            *(REQUEST, *_interleaved(item.text.replace("<image>", MARK), list(item.images))),
            *(ANSWER, *_interleaved(content["model_output"], names)),
        )
        return [JudgeQuestion(name, (*parts, words + BEST), OF_TEN) for name, words in ASKED.items()]

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        return {one.key: (answers[one.key] or 0.0) / OF_TEN.high for one in questions}


def _interleaved(text: str, images: list[Path]) -> list[Part]:
    """The text with an image at each mark."""
    pieces = text.split(MARK)
    if len(pieces) != len(images) + 1:
        return [text, *images]
    parts: list[Part] = [pieces[0]]
    for image, piece in zip(images, pieces[1:], strict=True):
        parts += [image, piece]
    return [part for part in parts if not isinstance(part, str) or part.strip()]


QUESTIONS = CommQuestions()

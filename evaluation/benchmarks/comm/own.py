"""Own questions for CoMM, each scored 0 to 10: completeness, quality, fidelity, three kinds of coherence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....backend.errors import SettingsError
from ..base.benchmark import BenchmarkData, BenchmarkItem, Values
from ..base.question import OF_TEN, Answers, JudgeQuestion, Part
from ..base.rows import results_object
from .items import FILE, MARK

REQUEST = "A user asked for an illustrated manual:"
ANSWER = "The generated content, with texts and images in order:"
ASKED = {
    "completeness": "How completely does it fulfill the request? No step should be missing.",
    "image quality": "How good are the generated images? They should be sharp, complete and believable.",
    "text fidelity": "How well does each generated image show what the text next to it describes?",
    "style consistency": "How consistent is the style of all images, as if by one artist?",
    "entity consistency": "How consistently do objects and people keep their appearance from image to image?",
    "trend consistency": "How well does the action progress from image to image as the texts describe?",
}
BEST = " 10 means without any fault, 5 means half, 0 means not at all or that there is nothing to judge. "


class CommQuestions:
    """Six questions per item."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        """Return the six questions about an item."""
        folder = submission / item.id
        content = results_object(folder / FILE)
        found = content.get("prediction_image_list") or []
        if not isinstance(content.get("model_output"), str) or not isinstance(found, list):
            raise SettingsError(
                f"{str(folder / FILE)!r} has no text model_output or no list prediction_image_list.",
                "Run benchmark collect again.",
            )
        names = [folder / Path(str(name)).name for name in found]
        parts = (
            *(REQUEST, *_interleaved(item.text.replace("<image>", MARK), list(item.images))),
            *(ANSWER, *_interleaved(content["model_output"], names)),
        )
        return [JudgeQuestion(name, (*parts, words + BEST), OF_TEN) for name, words in ASKED.items()]

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        """Return each answer as a share of ten points."""
        return {one.key: (answers[one.key] or 0.0) / OF_TEN.high for one in questions}


def _interleaved(text: str, images: list[Path]) -> list[Part]:
    """Return the text with an image at each mark."""
    pieces = text.split(MARK)
    if len(pieces) != len(images) + 1:
        return [text, *images]
    parts: list[Part] = [pieces[0]]
    for image, piece in zip(images, pieces[1:], strict=True):
        parts += [image, piece]
    return [part for part in parts if not isinstance(part, str) or part.strip()]


QUESTIONS = CommQuestions()

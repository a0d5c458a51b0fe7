"""Own questions for UEval: each rubric is asked separately."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ..base.benchmark import BenchmarkData, BenchmarkItem, Values
from ..base.question import Answers, JudgeQuestion, Part, share
from .items import FILE, entries_of, image_names

ASKED = """A user asked:
{prompt}

The text of the answer:
{text}
"""
OF_TEXT = """
A requirement for the text: {rubric}
Does the text meet this requirement completely? If this cannot be decided from the text, answer no. """
PICTURES = "The images of the answer, in order:"
NO_PICTURES = "The answer has no images."
OF_IMAGES = """A requirement for the images: {rubric}
Do the images meet this requirement completely, by what they show and not by text written into them? If this \
cannot be decided from the images, answer no. """


class UEvalQuestions:
    """One question per rubric."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        """Return one question per rubric of the text and of the images."""
        text, pictures = _answer(item, submission)
        asked = ASKED.format(prompt=item.text, text=text or "(nothing)")
        found = [
            JudgeQuestion(f"text {number}", (asked + OF_TEXT.format(rubric=rubric),))
            for number, rubric in enumerate(item.row["text_rubrics"], 1)
        ]
        shown: tuple[Part, ...] = (PICTURES, *pictures) if pictures else (NO_PICTURES,)
        found += [
            JudgeQuestion(f"image {number}", (asked, *shown, OF_IMAGES.format(rubric=rubric)))
            for number, rubric in enumerate(item.row["image_rubrics"], 1)
        ]
        return found

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        """Return the shares of met rubrics, and the mean of both."""
        values: dict[str, float] = {}
        for name in ("text", "image"):
            rate = share(answers, (one.key for one in questions if one.key.startswith(name)))
            if rate is not None:
                values[name] = rate
        return {**values, "both": sum(values.values()) / len(values)} if values else {}


def _answer(item: BenchmarkItem, submission: Path) -> tuple[str, list[Path]]:
    entries = _entries(submission)
    if item.id not in entries:
        raise SettingsError(
            f"The submission has no entry for {item.id[:80]!r}.", "Run benchmark collect again."
        )
    entry = entries[item.id]
    return str(entry.get("text_answer") or ""), [submission / "images" / name for name in image_names(entry)]


def _entries(submission: Path) -> dict[str, dict[str, Any]]:
    path = submission / FILE
    try:
        return _read(path, path.stat().st_mtime_ns, path.stat().st_size)
    except OSError as error:
        raise SettingsError(f"The submission has no file {str(path)!r}.", "Run benchmark collect.") from error


@lru_cache(maxsize=1)
def _read(path: Path, changed: int, size: int) -> dict[str, dict[str, Any]]:
    """Return the entries by id. They are read once for all items."""
    return {str(one.get("id")): one for one in entries_of(path)}


QUESTIONS = UEvalQuestions()

"""SpecV: each line of an item's checklist, one at a time, about the answer as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ..base.benchmark import BenchmarkData, BenchmarkItem, Values
from ..base.content import read_content
from ..base.question import Answers, JudgeQuestion, Part, share
from ..base.rows import results_json
from .items import INNER, MARK

CHECKLISTS = "eval_checklist/interleave"
ASKED = "Somebody asked for a text with pictures:"
ANSWER = "The answer, its texts and pictures in their order:"
WHETHER = """A question about this answer alone: {question}
"""
YES, NO = "yes", "no"


class SpecVQuestions:
    """A question a line of the checklist; its key is the line's number and what is expected."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        content, fault = read_content(submission, item)
        if fault is not None:
            raise SettingsError(f"The submission: {fault}.", "Call benchmark collect.")
        parts: list[Part] = [ASKED, *_interleaved(item), ANSWER]
        for part in content:
            is_image = part["type"] == "image"
            parts.append(submission / item.id / part["image"] if is_image else part["text"])
        return [
            JudgeQuestion(f"{number} {expected}", (*parts, WHETHER.format(question=question)))
            for number, (question, expected) in enumerate(_checklist(item, data), 1)
        ]

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        right: dict[str, float | None] = {}
        for one in questions:
            answer, expected = answers[one.key], float(one.key.endswith(YES))
            right[one.key] = None if answer is None else float(answer == expected)
        rate = share(right, right)
        return {} if rate is None else {"as expected": rate}


def _interleaved(item: BenchmarkItem) -> list[Part]:
    """The request, its images where it names them, else before it."""
    pieces = item.text.split(MARK)
    if len(pieces) != len(item.images) + 1:
        return [*item.images, item.text]
    parts: list[Part] = [pieces[0]]
    for image, piece in zip(item.images, pieces[1:], strict=True):
        parts += [image, piece]
    return [part for part in parts if part != ""]


def _checklist(item: BenchmarkItem, data: BenchmarkData) -> list[tuple[str, str]]:
    """Questions with what is expected, yes or no."""
    path = _folder(data) / item.category / f"{item.id}.json"
    rows: Any = results_json(path)
    found: list[tuple[str, str]] = []
    for row in rows if isinstance(rows, list) else []:
        question, expected = (
            row.get(name) if isinstance(row, dict) else None for name in ("question", "expected_answer")
        )
        if not isinstance(question, str) or str(expected).lower() not in (YES, NO):
            raise SettingsError(f"{str(path)!r} has a line without question or expected_answer.")
        found.append((question, str(expected).lower()))
    if not found:
        raise SettingsError(f"{str(path)!r} is no checklist.")
    return found


def _folder(data: BenchmarkData) -> Path:
    roots = [] if data.path is None else [data.path, *data.path.absolute().parents[: INNER.count("/") + 2]]
    for root in roots:
        if (root / CHECKLISTS).is_dir():
            return root / CHECKLISTS
    raise SettingsError(
        f"There are no checklists ({CHECKLISTS}) beside the data.", "Run with --data CHECKOUT of SpecV."
    )


QUESTIONS = SpecVQuestions()

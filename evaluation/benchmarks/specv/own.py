"""Own questions for SpecV: each line of an item's checklist is asked separately about the answer."""

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
ASKED = "A user asked for an illustrated text:"
ANSWER = "The answer, with its texts and images in order:"
WHETHER = """A question about this answer only: {question}
"""
YES, NO = "yes", "no"


class SpecVQuestions:
    """One question per line of the checklist. Its key is the line's number and the expected answer."""

    def questions(
        self, item: BenchmarkItem, submission: Path, data: BenchmarkData
    ) -> Sequence[JudgeQuestion]:
        """Return one question per line of the item's checklist."""
        content, fault = read_content(submission, item)
        if fault is not None:
            raise SettingsError(f"The submission cannot be judged: {fault}.", "Run benchmark collect again.")
        parts: list[Part] = [ASKED, *_interleaved(item), ANSWER]
        for part in content:
            is_image = part["type"] == "image"
            parts.append(submission / item.id / part["image"] if is_image else part["text"])
        return [
            JudgeQuestion(f"{number} {expected}", (*parts, WHETHER.format(question=question)))
            for number, (question, expected) in enumerate(_checklist(item, data), 1)
        ]

    def values(self, item: BenchmarkItem, questions: Sequence[JudgeQuestion], answers: Answers) -> Values:
        """Return the share of answers that are as expected."""
        right: dict[str, float | None] = {}
        for one in questions:
            answer, expected = answers[one.key], float(one.key.endswith(YES))
            right[one.key] = None if answer is None else float(answer == expected)
        rate = share(right, right)
        return {} if rate is None else {"as expected": rate}


def _interleaved(item: BenchmarkItem) -> list[Part]:
    """Return the request with images instead of the marks, or before the text if the numbers differ."""
    pieces = item.text.split(MARK)
    if len(pieces) != len(item.images) + 1:
        return [*item.images, item.text]
    parts: list[Part] = [pieces[0]]
    for image, piece in zip(item.images, pieces[1:], strict=True):
        parts += [image, piece]
    return [part for part in parts if part != ""]


def _checklist(item: BenchmarkItem, data: BenchmarkData) -> list[tuple[str, str]]:
    """Return the questions with the expected answers, yes or no."""
    path = _folder(data) / item.category / f"{item.id}.json"
    rows: Any = results_json(path)
    found: list[tuple[str, str]] = []
    for row in rows if isinstance(rows, list) else []:
        question, expected = (
            row.get(name) if isinstance(row, dict) else None for name in ("question", "expected_answer")
        )
        if not isinstance(question, str) or str(expected).lower() not in (YES, NO):
            raise SettingsError(
                f"A line of the checklist {str(path)!r} lacks question or expected_answer (yes or no)."
            )
        found.append((question, str(expected).lower()))
    if not found:
        raise SettingsError(f"{str(path)!r} is not a checklist. Use an unchanged checkout of SpecV.")
    return found


def _folder(data: BenchmarkData) -> Path:
    roots = [] if data.path is None else [data.path, *data.path.absolute().parents[: INNER.count("/") + 2]]
    for root in roots:
        if (root / CHECKLISTS).is_dir():
            return root / CHECKLISTS
    raise SettingsError(
        f"The checklists ({CHECKLISTS}) were not found near the data.",
        "Run the benchmark with --data CHECKOUT of SpecV.",
    )


QUESTIONS = SpecVQuestions()

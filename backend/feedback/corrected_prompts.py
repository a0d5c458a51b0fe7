"""What should have been drawn with instead of a prompt that failed, and who says so.

Decision: a critic learns as its refined prompt only what somebody vouches for. That is a person's better
prompt; else the prompt of a later try of the same step, from the same page, that was accepted; else what the
critic itself proposed, unless that was drawn and refused as well. Where there is none, the prompt that failed
still stands in the row, which needs one to be an answer, but as text that is not learned: taught, it would
say that drawing the same again helps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..types import Attempt

CorrectionSource = Literal["person", "teacher", "later try", "critic", "none"]
"""Who vouches for a refined prompt; a teacher is a program that knows the right one."""

REFINED = re.compile(r'<answer>\{"previous_step_success": (?:true|false), "refine_prompt": "')
END = '"}</answer>'


class Label(NamedTuple):
    """Whether the image of a try is held to be right (None: unknown), and whether a person said
    so."""

    success: bool | None
    by_person: bool = False


class CorrectedPrompt(NamedTuple):
    """A prompt to draw with, and its source; where there is none, the prompt that failed."""

    prompt: str
    source: CorrectionSource


def corrected_prompt_for(
    attempts: Sequence[Attempt], labels: Sequence[Label], index: int, better: str | None = None
) -> CorrectedPrompt:
    """The corrected prompt for attempt `index` of a step, whose image is wrong; `labels` are of all its
    attempts, `better` is a person's prompt."""
    failed = attempts[index]
    if better and better.strip():
        return CorrectedPrompt(better.strip(), "person")
    redrawn = [
        (one.prompt, label)
        for one, label in list(zip(attempts, labels, strict=True))[index + 1 :]
        if one.image is not None and _source(one) == _source(failed)
    ]
    accepted = [one for one in redrawn if one[1].success and not _same(one[0], failed.prompt)]
    if accepted:
        # Of those that were accepted, a person's comes before one that only a critic or a score accepted.
        return CorrectedPrompt(
            next((p for p, label in accepted if label.by_person), accepted[0][0]), "later try"
        )
    said = failed.verdict
    proposed = said.refined_prompt.strip() if said is not None and said.success is False else ""
    refused = any(label.success is False and _same(prompt, proposed) for prompt, label in redrawn)
    if proposed and not _same(proposed, failed.prompt) and not refused:
        return CorrectedPrompt(proposed, "critic")
    return CorrectedPrompt(failed.prompt, "none")


def refined_range(answer: str) -> tuple[int, int]:
    """Where the refined prompt stands in an answer of `write_verdict`, [start, end); raises ValueError for
    another text."""
    found = list(REFINED.finditer(answer))
    end = answer.rfind(END)
    if len(found) != 1 or end < found[0].end():
        raise ValueError("This is no answer that was written here.")
    return found[0].end(), end


def _source(attempt: Attempt) -> str | None:
    return attempt.source.digest if attempt.source else None


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()

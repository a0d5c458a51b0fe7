"""Finds the corrected prompt for a failed attempt, and its source.

A critic learns only refined prompts that are confirmed. This is the user's corrected prompt; else the prompt
of a later attempt of the same step, from the same source image, that was accepted; else the critic's own
refined prompt, unless an image generated from it was rejected too. If there is none, the row still contains
the failed prompt, since an answer needs one, but it is excluded from the loss: otherwise the critic would
learn that repeating the same prompt helps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..types import Attempt

CorrectionSource = Literal["person", "teacher", "later try", "critic", "none"]
"""Source of a refined prompt. A teacher is a program that knows the correct one."""

REFINED = re.compile(r'<answer>\{"previous_step_success": (?:true|false), "refine_prompt": "')
END = '"}</answer>'


class Label(NamedTuple):
    """Whether the image of an attempt is correct (`None`: unknown), and whether the user said so."""

    success: bool | None
    by_person: bool = False


class CorrectedPrompt(NamedTuple):
    """A prompt and its source. If the source is "none", it is the failed prompt."""

    prompt: str
    source: CorrectionSource


def corrected_prompt_for(
    attempts: Sequence[Attempt], labels: Sequence[Label], index: int, better: str | None = None
) -> CorrectedPrompt:
    """Return the corrected prompt for an attempt whose image is wrong.

    Args:
        attempts: All attempts of the step.
        labels: Label of each attempt.
        index: Index of the failed attempt.
        better: The user's corrected prompt, if there is one.
    """
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
        # Attempts that the user accepted come before those that only a critic or a score accepted.
        return CorrectedPrompt(
            next((p for p, label in accepted if label.by_person), accepted[0][0]), "later try"
        )
    verdict = failed.verdict
    proposed = verdict.refined_prompt.strip() if verdict is not None and verdict.success is False else ""
    rejected = any(label.success is False and _same(prompt, proposed) for prompt, label in redrawn)
    if proposed and not _same(proposed, failed.prompt) and not rejected:
        return CorrectedPrompt(proposed, "critic")
    return CorrectedPrompt(failed.prompt, "none")


def refined_range(answer: str) -> tuple[int, int]:
    """Return the range [start, end) of the refined prompt in an answer of `write_verdict`.

    Raises:
        ValueError: The text is not such an answer.
    """
    found = list(REFINED.finditer(answer))
    end = answer.rfind(END)
    if len(found) != 1 or end < found[0].end():
        raise ValueError("The answer was not written by write_verdict.")
    return found[0].end(), end


def _source(attempt: Attempt) -> str | None:
    return attempt.source.digest if attempt.source else None


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()

"""What should have been drawn with instead of a prompt that failed, and who says so.

Decision: a critic learns as its refined prompt only what somebody vouches for. That is a person's better
prompt; else the prompt of a later try of the same step, from the same page, that was accepted; else what the
critic itself proposed, unless that was drawn and refused as well. Where there is none, the prompt that failed
still stands in the row, which needs one to be an answer, but as text that is not learned: taught, it would
say that drawing the same again is the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..types import Attempt

RemedySource = Literal["person", "teacher", "later try", "critic", "none"]
"""Who vouches for a refined prompt; a teacher is a program that knows the right one."""

REFINED = re.compile(r'<answer>\{"previous_step_success": (?:true|false), "refine_prompt": "')
END = '"}</answer>'


class Ruling(NamedTuple):
    """Whether the image of a try is held to be right (None: unknown), and whether a person said
    so."""

    success: bool | None
    by_person: bool = False


class Remedy(NamedTuple):
    """A prompt to draw with, and its source; where there is none, the prompt that failed."""

    prompt: str
    source: RemedySource


def remedy_of(
    attempts: Sequence[Attempt], rulings: Sequence[Ruling], index: int, better: str | None = None
) -> Remedy:
    """The remedy for try `index` of a step, whose image is wrong; `rulings` are of all its tries, `better` is
    a person's prompt."""
    failed = attempts[index]
    if better and better.strip():
        return Remedy(better.strip(), "person")
    redrawn = [
        (one.prompt, ruling)
        for one, ruling in list(zip(attempts, rulings, strict=True))[index + 1 :]
        if one.image is not None and _source(one) == _source(failed)
    ]
    accepted = [one for one in redrawn if one[1].success and not _same(one[0], failed.prompt)]
    if accepted:
        # Of those that were accepted, a person's comes before one that only a critic or a score accepted.
        return Remedy(next((p for p, ruling in accepted if ruling.by_person), accepted[0][0]), "later try")
    said = failed.verdict
    proposed = said.refined_prompt.strip() if said is not None and said.success is False else ""
    refused = any(ruling.success is False and _same(prompt, proposed) for prompt, ruling in redrawn)
    if proposed and not _same(proposed, failed.prompt) and not refused:
        return Remedy(proposed, "critic")
    return Remedy(failed.prompt, "none")


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

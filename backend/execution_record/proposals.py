"""Decides what `refine_prompt` means in a record: the critic's refined prompt, or the prompt of the attempt.

Published files contain refined prompts ("" if the image was accepted). So do our files, which say so with
`"refine_prompt_is": "proposal"`. Older files of ours contain the prompt that was used, without saying so.
They are recognized by elimination. If the field is the prompt used, the first attempt of every step has the
step's own prompt, and no attempt has an empty one. If it is a refined prompt, an accepted attempt has none,
or the prompt that was used. If both are possible, it is the prompt used; if neither is, reading fails with an
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Meaning(str, Enum):
    """Meaning of `refine_prompt`. The values are part of the file format."""

    proposal = "proposal"
    drawn_with = "drawn with"


@dataclass(frozen=True)
class WrittenAttempt:
    """An attempt as written in a file.

    `prompt` is the step's own prompt. `drawn_with` is the prompt used, in files that contain it separately.
    """

    prompt: str | None
    refine_prompt: str | None
    success: bool | None
    drawn_with: str | None = None


@dataclass(frozen=True)
class Prompts:
    """The prompt used for an attempt (`None`: unknown), and the critic's refined prompt.

    `proposed` is empty if there was none, and `None` if it is unknown.
    """

    drawn_with: str | None
    proposed: str | None


def meaning_of(steps: Sequence[Sequence[WrittenAttempt]]) -> Meaning | None:
    """Return the meaning that fits the attempts of each step; `None` if neither does."""
    if all(_can_be_drawn_with(step) for step in steps):
        return Meaning.drawn_with
    if all(_can_be_proposal(step) for step in steps):
        return Meaning.proposal
    return None


def prompts_of(step: Sequence[WrittenAttempt], meaning: Meaning) -> list[Prompts]:
    """Return the prompts of a step's attempts."""
    if meaning is Meaning.proposal:
        return _of_proposals(step)
    drawn = [one.refine_prompt or one.prompt for one in step]
    found: list[Prompts] = []
    for number, one in enumerate(step):
        later = drawn[number + 1] if number + 1 < len(step) else None
        proposed = "" if one.success else later if later != drawn[number] else None
        found.append(Prompts(drawn[number], proposed))
    return found


def drawn_after(drawn_with: str | None, proposed: str | None) -> str | None:
    """Return the prompt of the next attempt: the refined prompt, else the same prompt."""
    return proposed or drawn_with


def _of_proposals(step: Sequence[WrittenAttempt]) -> list[Prompts]:
    found: list[Prompts] = []
    following = step[0].prompt if step else None
    for one in step:
        drawn = one.drawn_with or following or one.prompt
        proposed = "" if one.success else one.refine_prompt or ""
        found.append(Prompts(drawn, proposed))
        following = drawn_after(drawn, proposed)
    return found


def _can_be_drawn_with(step: Sequence[WrittenAttempt]) -> bool:
    return all(one.refine_prompt for one in step) and (
        not step or _same(step[0].refine_prompt, step[0].prompt)
    )


def _can_be_proposal(step: Sequence[WrittenAttempt]) -> bool:
    return all(
        not one.success or not one.refine_prompt or _same(one.refine_prompt, prompts.drawn_with)
        for one, prompts in zip(step, _of_proposals(step), strict=True)
    )


def _same(one: str | None, other: str | None) -> bool:
    return (one or "").strip() == (other or "").strip()

"""What the `refine_prompt` of a record's attempts means: the critic's proposal after the image, or the prompt
it was drawn with.

Decision: published files hold proposals, "" after True, and so do ours, which say it (`"refine_prompt_is":
"proposal"`). Older files of ours held the prompt drawn with and say nothing. They are known by what can be:
drawn with, the first attempt of every step has the step's own prompt and no attempt has none; proposed, an
accepted attempt has none, or the prompt that it was drawn with. Where both can be, it is "drawn with"; where
neither can be, an error says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Meaning(str, Enum):
    """What `refine_prompt` is; the values stand in files."""

    proposal = "proposal"
    drawn_with = "drawn with"


@dataclass(frozen=True)
class WrittenAttempt:
    """An attempt as it was written. `prompt` is the step's own one, `drawn_with` stands only where it is told
    apart."""

    prompt: str | None
    refine_prompt: str | None
    success: bool | None
    drawn_with: str | None = None


@dataclass(frozen=True)
class Prompts:
    """The prompt of an attempt's draw (None: unknown) and the critic's proposal after it ("": none, None:
    unknown)."""

    drawn_with: str | None
    proposed: str | None


def meaning_of(steps: Sequence[Sequence[WrittenAttempt]]) -> Meaning | None:
    """What the attempts of each step, in order, show; None if they can be neither."""
    if all(_can_be_drawn_with(step) for step in steps):
        return Meaning.drawn_with
    if all(_can_be_proposal(step) for step in steps):
        return Meaning.proposal
    return None


def prompts_of(step: Sequence[WrittenAttempt], meaning: Meaning) -> list[Prompts]:
    """The prompts of a step's attempts."""
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
    """The prompt that follows an attempt: what was proposed after it, else its own."""
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

"""Terms of the critic's reward and their sum, with the published formulas and independent of any trainer.

All functions are pure and take measured values. A reward that cannot be computed is not a number: the caller
reports it as None, and the sample is left out of its group. The published formulas favor rejecting: a right
image is never redrawn, so rejecting it costs only the accuracy term, 0.5 x 0.2 = 0.1. They are the default
for comparability (answers are parsed differently, see critic_reward.py). `redraws(..., "refused")` also
redraws right images that the critic rejected, so that the reward depends on what the rejection does to the
image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.answers.reading import REFINE_KEYS, VERDICT_KEYS, read_verdict
from ...backend.core.answers.reply_text import TAG, find_objects, split_reply
from ...backend.core.errors import AnswerError
from ...backend.core.types import Score, Verdict

NEUTRAL = 0.5
"""Step terms of a sample whose image was not redrawn: neither better nor worse."""

Redraw = Literal["failed", "refused"]


class RewardWeights(BaseModel):
    """Weights of the reward's terms. Defaults: as published (docs/reference/file-formats.md, Rewards)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format_weight: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Weight of the answer's format; the rest is the weight of its content.",
    )
    accuracy_weight: float = Field(
        default=0.2, ge=0, le=1, description="Weight of a right verdict within the content."
    )
    semantic_weight: float = Field(
        default=0.6, ge=0, le=1, description="Weight of the improvement in semantics within the content."
    )
    quality_weight: float = Field(
        default=0.2, ge=0, le=1, description="Weight of the improvement in quality within the content."
    )

    @property
    def need_steps(self) -> bool:
        """Whether the step terms have any weight, so that images must be redrawn."""
        return any(getattr(self, f"{name}_weight") > 0 for name in STEP_TERMS)


PUBLISHED = RewardWeights()


class Judged(NamedTuple):
    """An answer about an image, as the terms see it.

    Attributes:
        answer: Text of the answer.
        verdict: Its verdict; `None` if it cannot be parsed.
        truth: Whether the image is right.
        before: Score of the image.
        after: Scores of the redrawn images; empty if none was generated.
        verdict_first: Whether the verdict comes before the reasoning.
    """

    answer: str
    verdict: bool | None
    truth: bool
    before: Score
    after: Sequence[Score] = ()
    verdict_first: bool = False


def format_reward(text: str, verdict_first: bool = False) -> float:
    """Return 1.0 if the answer has exactly the taught format, else 0.0.

    The format is one `<answer>...</answer>` whose only object contains a bool verdict and a string refined
    prompt (which may be empty), as JSON or a Python literal. A `<think>`, if present, is closed and precedes
    it (follows it if the critic's prompt template asks for the verdict first). This is stricter than
    `read_verdict`. Source: docs/reference/file-formats.md, Rewards.
    """
    value = only_object(text, verdict_first)
    if value is None:
        return 0.0
    verdict = [value[key] for key in VERDICT_KEYS if key in value]
    refined = [value[key] for key in REFINE_KEYS if key in value]
    right = len(verdict) == len(refined) == 1 and isinstance(verdict[0], bool) and isinstance(refined[0], str)
    return float(right)


def only_object(text: str, answer_first: bool = False) -> dict[str, Any] | None:
    """Return the only object of an answer's only `<answer>`, else None.

    None is also returned if the object had to be repaired, or if a `<think>` is not closed, in the wrong
    place, or not the only one.
    """
    tags = [tag.group(1) + tag.group(2).lower() for tag in TAG.finditer(text)]
    if tags.count("think") > 1:
        return None
    # Other tags within the reasoning belong to the reasoning.
    if answer_first:
        if tags[2:3] == ["think"] and tags[-1] == "/think" and tags.count("/think") == 1:
            tags = tags[:2]
    elif tags[:1] == ["think"] and "/think" in tags:
        tags = tags[tags.index("/think") + 1 :]
    if tags != ["answer", "/answer"]:
        return None
    try:
        places = split_reply(text).places
        found = [item for place in places for item in find_objects(place)]
    except AnswerError:
        return None
    return found[0].value if len(found) == 1 and not found[0].repaired else None


def accuracy_reward(verdict: bool | None, truth: bool) -> float:
    """Return 1.0 if the verdict equals the truth, else 0.0; None (not parsed) is never right.

    The paper has -|verdict - truth|, which differs only by a constant that cancels within a group. Source:
    docs/reference/file-formats.md, Rewards.
    """
    return float(verdict is not None and verdict == truth)


def improvement(before: float, after: Sequence[float]) -> float:
    """Return a step term, 0 to 1: the mean improvement of the redrawn images; NEUTRAL without any.

    The improvement is ((s1 - s0) / 10 + 1) / 2. Source: docs/reference/file-formats.md, Rewards.

    Args:
        before: Score s0 of the judged image, 0 to 10.
        after: Scores s1 of the images generated with the refined prompt, against the step's original prompt.
    """
    return sum(((one - before) / 10 + 1) / 2 for one in after) / len(after) if after else NEUTRAL


TERMS: dict[str, Callable[[Judged], float]] = {
    "format": lambda one: format_reward(one.answer, one.verdict_first),
    "accuracy": lambda one: accuracy_reward(one.verdict, one.truth),
    "semantic": lambda one: improvement(one.before.semantics, [score.semantics for score in one.after]),
    "quality": lambda one: improvement(one.before.quality, [score.quality for score in one.after]),
}
"""The terms by name. A new one is a function and its line here, and its weight in `RewardWeights`."""
STEP_TERMS = ("semantic", "quality")
"""Terms that need redrawn images."""


def combine(weights: RewardWeights = PUBLISHED, **terms: float) -> float:
    """Return the reward, 0 to 1: 0.5 format + 0.5 (0.2 accuracy + 0.6 semantic + 0.2 quality).

    All terms are 0 to 1. The paper's alpha is the 0.2 of accuracy; the remaining 0.8 for the step is split
    into 0.6 and 0.2 as in the published code. Source: docs/reference/file-formats.md, Rewards.
    """
    content = sum(getattr(weights, f"{name}_weight") * terms[name] for name in TERMS if name != "format")
    return weights.format_weight * terms["format"] + (1 - weights.format_weight) * content


def redraws(truth: bool, verdict: bool | None, rule: Redraw = "failed") -> bool:
    """Return whether the image is redrawn with the refined prompt; otherwise its step terms are NEUTRAL.

    "failed" is the published rule: images that are wrong in truth are redrawn whatever the verdict, right
    ones never. "refused" also redraws right images that were rejected. With exact scores a right image can
    only get worse, so that a needless rejection costs up to 0.5 x 0.8 x 0.5 = 0.2 more. An answer that cannot
    be parsed (None) is not redrawn.
    """
    if verdict is None:
        return False
    return not truth or (rule == "refused" and not verdict)


def read_answer(text: str) -> Verdict | None:
    """Return the verdict as the running system parses it, or None."""
    try:
        return read_verdict(text)
    except AnswerError:
        return None

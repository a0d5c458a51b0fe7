"""The critic's reward, term by term and summed: the published arithmetic of the terms, and nothing of any
trainer in it.

Decisions. Every function is pure and takes what was measured, never how. A reward that cannot be known is not
a number: whoever draws and scores says so with None, and the sample is left out of its group (`step_rewards`
is then not called). The published arithmetic leans towards refusing: an image that is right is never redrawn,
so refusing it costs the accuracy term alone, 0.5 x 0.2 = 0.1. It is the default for parity (how answers are
read is ours, see published.py); `redraws(..., "refused")` also redraws what the critic refused without need,
so that the refusal pays for what it does to the image.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...backend.answers.reading import REFINE_KEYS, VERDICT_KEYS, read_verdict
from ...backend.answers.reply_text import TAG, find_objects, split_reply
from ...backend.errors import AnswerError
from ...backend.types import Score, Verdict

NEUTRAL = 0.5
"""The step terms of a sample whose image was not redrawn: neither better nor worse."""

Redraw = Literal["failed", "refused"]


class RewardWeights(BaseModel):
    """Weights of the reward's terms; the defaults are the published ones (FORMATS: rewards)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format_weight: float = Field(
        default=0.5, ge=0, le=1, description="Weight of the form; the rest is the content's."
    )
    accuracy_weight: float = Field(
        default=0.2, ge=0, le=1, description="Weight of the verdict in the content."
    )
    semantic_weight: float = Field(
        default=0.6, ge=0, le=1, description="Weight of better semantics in the content."
    )
    quality_weight: float = Field(
        default=0.2, ge=0, le=1, description="Weight of better quality in the content."
    )

    @property
    def need_steps(self) -> bool:
        """Whether the new image counts at all, and so has to be drawn."""
        return self.semantic_weight > 0 or self.quality_weight > 0


PUBLISHED = RewardWeights()


def format_reward(text: str, verdict_first: bool = False) -> float:
    """1.0 if the answer has the form that was taught, else 0.0.

    That is: one `<answer>...</answer>` whose only object holds a bool verdict and a string refined prompt
    (which may be empty), written as JSON or as a Python literal; a `<think>`, if there is one, is closed and
    stands before it (after it, where the critic's wording asks for the verdict first). Source: FORMATS,
    rewards. Stricter than `read_verdict`, which is what makes it worth a reward.
    """
    value = only_object(text, verdict_first)
    if value is None:
        return 0.0
    verdict = [value[key] for key in VERDICT_KEYS if key in value]
    refined = [value[key] for key in REFINE_KEYS if key in value]
    right = len(verdict) == len(refined) == 1 and isinstance(verdict[0], bool) and isinstance(refined[0], str)
    return float(right)


def only_object(text: str, answer_first: bool = False) -> dict[str, Any] | None:
    """The only object of an answer's only `<answer>`, None if it is not the only one or had to be repaired,
    or if a `<think>` is not closed or stands on the wrong side of it."""
    tags = [tag.group(1) + tag.group(2).lower() for tag in TAG.finditer(text)]
    # What is written within the reasoning is the reasoning's.
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
    """1.0 if the verdict is the truth, else 0.0; None (not understood) is never right.

    Source: FORMATS, rewards. The paper writes -|verdict - truth|, the same up to a constant, which groups do
    not see.
    """
    return float(verdict is not None and verdict == truth)


def step_rewards(before: Score, after: Score) -> tuple[float, float]:
    """(semantic, quality), each 0..1: how much better the redrawn image is, 0.5 for "as before".

    `before` scores the image that was judged, `after` the one drawn with the refined prompt, both against the
    step's original prompt. ((s1 - s0) / 10 + 1) / 2 each. Source: FORMATS, rewards.
    """
    return (
        ((after.semantics - before.semantics) / 10 + 1) / 2,
        ((after.quality - before.quality) / 10 + 1) / 2,
    )


def combine(
    *, format: float, accuracy: float, semantic: float, quality: float, weights: RewardWeights = PUBLISHED
) -> float:
    """The reward, 0..1 for terms of 0..1: 0.5 x format + 0.5 x (0.2 x accuracy + 0.6 x semantic + 0.2 x
    quality).

    Source: FORMATS, rewards (the paper's alpha is the 0.2 of accuracy; its 0.8 of the step is split 0.6 /
    0.2).
    """
    content = (
        weights.accuracy_weight * accuracy
        + weights.semantic_weight * semantic
        + weights.quality_weight * quality
    )
    return weights.format_weight * format + (1 - weights.format_weight) * content


def redraws(truth: bool, verdict: bool | None, rule: Redraw = "failed") -> bool:
    """Whether the refined prompt is drawn, or the step terms are NEUTRAL.

    "failed" is the published rule: what failed in truth is redrawn whatever the critic said of it, what
    succeeded never is. "refused" redraws also what succeeded and was refused: scored exactly, a right image
    can only get worse, so that needless refusals cost up to 0.5 x 0.8 x 0.5 = 0.2 more. An answer that cannot
    be read (None) draws nothing.
    """
    if verdict is None:
        return False
    return not truth or (rule == "refused" and not verdict)


def read_answer(text: str) -> Verdict | None:
    """The verdict as the running system would read it, None if it cannot be read."""
    try:
        return read_verdict(text)
    except AnswerError:
        return None

"""Settings and terms of a step that is continued over several attempts, independent of any trainer.

An answer about an image is continued as in use: a rejection generates the next image from the refined prompt,
and the trained critic judges it, until it accepts or the attempts are used up. The reward depends on the last
image, on whether a right image was accepted, and on how many right images were generated again. Failed
attempts have no cost of their own. If they had one, accepting a wrong image would be the cheapest answer to a
prompt that the generator cannot follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from ....backend.errors import SettingsError
from ....backend.types import Score, Value
from ..critic_reward import RewardSettings
from ..terms import NEUTRAL, combine, step_rewards


class AttemptSettings(BaseModel):
    """Settings of the attempts of a step. With one turn there is only the published single-step reward."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    turns: int = Field(
        default=1,
        ge=1,
        le=10,
        description="Images per step, including the judged one. Above 1, a rejected image is generated again "
        "and judged by the trained critic until it accepts. 1: single steps (published).",
    )
    stop_weight: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="With several turns: weight of accepting a right image, relative to the other weights of "
        "the content.",
    )
    thrift_weight: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="With several turns: weight of not generating a right image again, relative to the other "
        "weights of the content.",
    )
    right_at: float = Field(
        default=10.0,
        ge=0,
        le=10,
        description="With several turns: semantics score (0-10) from which a new image counts as right.",
    )

    def check(self, reward: RewardSettings) -> None:
        """Check that the settings of the reward support several turns.

        Raises:
            SettingsError: They do not.
        """
        if self.turns == 1:
            return
        if reward.published_quirks or reward.draws > 1:
            given = "--published-quirks" if reward.published_quirks else f"--draws {reward.draws}"
            raise SettingsError(
                f"--turns {self.turns} cannot be combined with {given}.",
                "Remove one of them. Every attempt generates one image.",
            )
        if not reward.need_steps:
            raise SettingsError(
                f"--turns {self.turns} rewards the images, but --semantic-weight and --quality-weight are 0.",
                "Raise one of them, or use --turns 1.",
            )


class JudgedImage(Value):
    """An image of a step with its truth, and the verdict on it if it was judged.

    `score` is the judge's; `verdict` is None if the image was not judged or the answer cannot be read.
    """

    prompt: str
    score: Score
    right: bool
    judged: bool = True
    verdict: bool | None = None


@dataclass(frozen=True)
class StepTerms:
    """Terms of a finished step, 0 to 1 each."""

    semantic: float
    quality: float
    stop: float
    thrift: float


def step_terms(images: Sequence[JudgedImage], turns: int) -> StepTerms:
    """Return the terms of a step whose images are these, in order; the first is the row's.

    `semantic` and `quality` compare the last image with the first. `stop` is 1 if a right image was accepted,
    0 if a wrong one was or the last answer cannot be read, and NEUTRAL if the attempts were used up. `thrift`
    is less than 1 by 1 / (turns - 1) for each right image that was generated again.
    """
    first, last = images[0], images[-1]
    semantic, quality = step_rewards(first.score, last.score)
    stop = float(last.right and last.verdict is True) if last.judged else NEUTRAL
    needless = sum(one.right for one in images[:-1])
    return StepTerms(semantic, quality, stop, 1.0 - needless / (turns - 1))


def combine_steps(
    *, format: float, accuracy: float, terms: StepTerms, reward: RewardSettings, attempts: AttemptSettings
) -> float:
    """Return the reward, 0 to 1: the published sum, with `stop` and `thrift` in the mean of the content."""
    published = combine(
        format=format, accuracy=accuracy, semantic=terms.semantic, quality=terms.quality, weights=reward
    )
    whole = reward.accuracy_weight + reward.semantic_weight + reward.quality_weight
    more = attempts.stop_weight * terms.stop + attempts.thrift_weight * terms.thrift
    content = (published - reward.format_weight * format) + (1 - reward.format_weight) * more
    return reward.format_weight * format + content / (whole + attempts.stop_weight + attempts.thrift_weight)

"""Terms of a step that is continued over several attempts, and their sum."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.types import Score
from interleave_thinker.training.reward.attempts.terms import (
    AttemptSettings,
    JudgedImage,
    StepTerms,
    combine_steps,
    step_terms,
)
from interleave_thinker.training.reward.critic_reward import RewardSettings


def image(right: bool, verdict: bool | None, judged: bool = True) -> JudgedImage:
    score = Score(semantics=10 if right else 5, quality=8)
    return JudgedImage(prompt="a boat", score=score, right=right, verdict=verdict, judged=judged)


RIGHT_ACCEPTED, WRONG_ACCEPTED = image(True, True), image(False, True)
RIGHT_REJECTED, WRONG_REJECTED = image(True, False), image(False, False)


@pytest.mark.parametrize(
    ("images", "semantic", "stop", "thrift"),
    [
        ([RIGHT_ACCEPTED], 0.5, 1.0, 1.0),
        ([WRONG_ACCEPTED], 0.5, 0.0, 1.0),
        ([image(False, None)], 0.5, 0.0, 1.0),
        ([WRONG_REJECTED, RIGHT_ACCEPTED], 0.75, 1.0, 1.0),
        ([WRONG_REJECTED, WRONG_ACCEPTED], 0.5, 0.0, 1.0),
        ([WRONG_REJECTED, WRONG_REJECTED, image(False, None, judged=False)], 0.5, 0.5, 1.0),
        ([WRONG_REJECTED, WRONG_REJECTED, image(True, None, judged=False)], 0.75, 0.5, 1.0),
        ([RIGHT_REJECTED, RIGHT_ACCEPTED], 0.5, 1.0, 0.5),
        ([RIGHT_REJECTED, RIGHT_REJECTED, image(False, None, judged=False)], 0.25, 0.5, 0.0),
    ],
)
def test_the_end_of_a_step_is_rewarded(
    images: list[JudgedImage], semantic: float, stop: float, thrift: float
) -> None:
    assert step_terms(images, 3) == StepTerms(semantic, 0.5, stop, thrift)


def test_the_sum_is_the_mean_of_all_terms_and_without_weights_the_published_one() -> None:
    best = StepTerms(1.0, 1.0, 1.0, 1.0)
    settings = {"format": 1.0, "accuracy": 1.0, "reward": RewardSettings()}
    assert combine_steps(terms=best, attempts=AttemptSettings(turns=3), **settings) == pytest.approx(1.0)
    half = StepTerms(0.5, 0.5, 0.0, 0.0)
    found = combine_steps(terms=half, attempts=AttemptSettings(turns=3), **settings)
    assert found == pytest.approx(0.5 + 0.5 * (0.2 + 0.3 + 0.1) / 1.3)
    plain = AttemptSettings(turns=3, stop_weight=0, thrift_weight=0)
    assert combine_steps(terms=half, attempts=plain, **settings) == pytest.approx(0.5 + 0.5 * 0.6)


def test_a_wrong_image_is_better_rejected_in_vain_than_accepted() -> None:
    attempts, reward = AttemptSettings(turns=3), RewardSettings()

    def worth(images: list[JudgedImage]) -> float:
        accuracy = float(images[0].verdict == images[0].right)
        terms = step_terms(images, 3)
        return combine_steps(format=1.0, accuracy=accuracy, terms=terms, reward=reward, attempts=attempts)

    in_vain = [WRONG_REJECTED, WRONG_REJECTED, image(False, None, judged=False)]
    assert worth([WRONG_ACCEPTED]) < worth(in_vain) < worth([WRONG_REJECTED, RIGHT_ACCEPTED])
    assert worth([RIGHT_REJECTED, RIGHT_ACCEPTED]) < worth([RIGHT_ACCEPTED])


@pytest.mark.parametrize(
    ("reward", "named"),
    [
        ({"published_quirks": True}, "--published-quirks"),
        ({"draws": 2}, "--draws 2"),
        ({"semantic_weight": 0, "quality_weight": 0}, "--semantic-weight"),
    ],
)
def test_rewards_without_several_attempts_are_refused(reward: dict, named: str) -> None:
    AttemptSettings().check(RewardSettings(**reward))
    AttemptSettings(turns=2).check(RewardSettings())
    with pytest.raises(SettingsError, match=named):
        AttemptSettings(turns=2).check(RewardSettings(**reward))

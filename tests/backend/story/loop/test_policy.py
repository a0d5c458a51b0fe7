"""The rules of the loop as functions: which attempt is kept, and what is asked of the next one."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import MAX_TEXT
from interleave_thinker.backend.core.types.checklist import CheckedItem
from interleave_thinker.backend.core.types.run_settings import RunSettings
from interleave_thinker.backend.core.types.trajectory import Attempt, StopReason, Verdict
from interleave_thinker.backend.story.loop import policy


def attempt(width: int, success: bool | None, probability: float | None = None) -> Attempt:
    verdict = Verdict(success=success, probability=probability)
    return Attempt(prompt="a boat", seed=width, image=Picture.white((width, 8)), verdict=verdict)


@pytest.mark.parametrize("success", [True, False])
def test_the_first_of_equally_good_accepted_attempts_wins_and_the_last_rejected(success: bool) -> None:
    attempts = [attempt(width, success, 0.75) for width in (8, 9, 10)]
    settings = RunSettings(max_attempts=3, candidates=3)
    assert policy.choose(attempts, settings) == (0 if success else 2)


def test_an_accepted_attempt_wins_over_a_rejected_one_with_more_probability() -> None:
    attempts = [attempt(8, False, 0.9), attempt(9, True, 0.6), attempt(10, False, 0.8)]
    assert policy.choose(attempts, RunSettings(max_attempts=3)) == 1


def test_digits_behind_the_sixth_do_not_decide() -> None:
    assert policy.standing(attempt(8, True, 0.9000001)) == policy.standing(attempt(9, True, 0.9000002))


@pytest.mark.parametrize(
    ("picks", "requested", "chosen", "reason", "approved"),
    [
        (policy.Picks(), None, 1, StopReason.accepted, False),
        (policy.Picks(newest="first"), None, 0, StopReason.picked, False),
        (policy.Picks(newest="second"), None, 1, StopReason.picked, True),
        (policy.Picks(before="first"), 1, 1, StopReason.accepted, False),
        (policy.Picks(newest="first"), 1, 0, StopReason.picked, False),
        (policy.Picks(timed="second"), None, 1, StopReason.approved_by_time, False),
    ],
)
def test_a_person_comes_first_and_a_clock_approves_nothing(
    picks: policy.Picks, requested: int | None, chosen: int, reason: StopReason, approved: bool
) -> None:
    attempts = [attempt(8, False), attempt(9, True)]
    images = {
        name: one.image.digest for name, one in zip(("first", "second"), attempts, strict=True) if one.image
    }
    named = policy.Picks(*(images.get(name) if name else None for name in picks))
    found = policy.decide(
        attempts, policy.Ended(StopReason.accepted, requested), named, RunSettings(max_attempts=2)
    )
    assert (found.chosen, found.reason, found.approved) == (chosen, reason, approved)


def test_a_step_without_any_image_ends_in_an_error() -> None:
    failed = Attempt(prompt="a boat", seed=1)
    found = policy.decide([failed], policy.Ended(StopReason.attempts_used_up), policy.Picks(), RunSettings())
    assert found.chosen is None and found.reason is StopReason.error


def test_a_threshold_decides_in_both_directions() -> None:
    settings = RunSettings(accept_at=0.3)
    assert policy.ended_by([attempt(8, False, 0.31)], settings) is StopReason.accepted
    assert policy.ended_by([attempt(8, True, 0.29)], settings) is None


def test_a_refined_prompt_with_items_stays_within_the_limit() -> None:
    long = "x" * (MAX_TEXT - 10)
    item = CheckedItem(text="The boat is red.", kind="color", passed=False)
    judged = policy.with_items(Verdict(success=True, refined_prompt=long), [item], "a boat")
    assert judged.success is False and judged.refined_prompt == long
    short = policy.with_items(Verdict(success=True, refined_prompt="a boat"), [item], "a boat")
    assert "The boat is red." in short.refined_prompt

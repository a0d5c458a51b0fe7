"""Which runs are complete: only what another run with the same settings would make is missing."""

from __future__ import annotations

from typing import Any

import pytest

from interleave_thinker import Attempt, Picture, Plan, Request, Step
from interleave_thinker.backend.core.types import Fault, Redraw, StepResult, StopReason, Trajectory, Verdict
from interleave_thinker.backend.story.outcomes import Lack, is_complete, lacks, summarize

IMAGE = Picture.white((32, 32))
STEPS = tuple(Step(number=number, prompt="a") for number in (1, 2, 3))
REJECTED = Verdict(success=False)


def attempt(image: bool = True, fault: str = "", redraw: int = 0) -> Attempt:
    return Attempt(
        prompt="a",
        seed=0,
        image=IMAGE if image else None,
        verdict=REJECTED if image and not fault else None,
        error=Fault(where=fault, message="Out of memory.") if fault else None,
        redraw=Redraw(number=redraw) if redraw else None,
    )


FINE, UNJUDGED, FAILED = attempt(), attempt(fault="critic"), attempt(False, "generator")
CASES: list[tuple[StopReason, list[Attempt], Lack | None]] = [
    (StopReason.accepted, [FINE], None),
    (StopReason.accepted, [FAILED, UNJUDGED, FINE], None),
    (StopReason.picked, [FAILED, UNJUDGED], None),
    (StopReason.approved_by_time, [FAILED, UNJUDGED], None),
    (StopReason.text_only, [], None),
    (StopReason.skipped, [], None),
    (StopReason.unjudged, [FINE], None),
    (StopReason.unchecked, [FINE], None),
    (StopReason.attempts_used_up, [FINE, FINE], None),
    (StopReason.attempts_used_up, [FINE, UNJUDGED], Lack.not_judged),
    (StopReason.attempts_used_up, [FINE, FAILED], Lack.attempts_failed),
    (StopReason.attempts_used_up, [FAILED, UNJUDGED], Lack.not_judged),
    (StopReason.error, [FAILED, FAILED], Lack.not_drawn),
    (StopReason.budget, [FINE], Lack.out_of_time),
    (StopReason.budget, [], Lack.out_of_time),
    (StopReason.cancelled, [FINE], Lack.cancelled),
    (StopReason.redrawn, [FAILED, FINE, attempt(redraw=1)], None),
    (StopReason.redrawn, [FINE, attempt(fault="critic", redraw=1)], Lack.not_judged),
    (StopReason.redrawn, [FINE, attempt(fault="critic", redraw=1), attempt(redraw=2)], None),
    (StopReason.accepted, [FINE, attempt(False, "generator", redraw=1)], Lack.attempts_failed),
]


def ended(reason: StopReason, attempts: list[Attempt], **more: Any) -> StepResult:
    chosen = next((number for number, one in enumerate(attempts) if one.image), None)
    return StepResult(step=STEPS[0], attempts=tuple(attempts), chosen=chosen, stop_reason=reason, **more)


@pytest.mark.parametrize(("reason", "attempts", "lack"), CASES)
def test_a_result_says_what_it_lacks(reason: StopReason, attempts: list[Attempt], lack: Lack | None) -> None:
    result = ended(reason, attempts)
    trajectory = Trajectory(request=Request(text="a"), plan=Plan(steps=STEPS[:1]), results=(result,))
    assert lacks(trajectory) == ({} if lack is None else {lack: [1]})
    assert is_complete(trajectory) == (lack is None)
    assert summarize(trajectory).incomplete_steps == (lack is not None)


def test_every_stop_reason_is_one_of_the_cases() -> None:
    assert {reason for reason, *_ in CASES} == set(StopReason)


def test_unreached_steps_are_reported_as_missing() -> None:
    result = ended(StopReason.accepted, [FINE])
    trajectory = Trajectory(request=Request(text="a"), plan=Plan(steps=STEPS), results=(result,))
    assert lacks(trajectory) == {Lack.not_reached: [2, 3]}
    assert is_complete(trajectory, [1]) and not is_complete(trajectory, [1, 2])
    assert "3 steps · 2 steps not complete · " in summarize(trajectory).sentence

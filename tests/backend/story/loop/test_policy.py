"""The rules of the loop as functions: which attempt is kept, and what is asked of the next one."""

from __future__ import annotations

import pytest

from interleave_thinker import Attempt, Picture, Plan, RunSettings, StopReason, Verdict
from interleave_thinker.backend.core.types import MAX_TEXT, Redraw, Step, StepResult, StoryCheck, StoryFinding
from interleave_thinker.backend.core.types.checklist import CheckedItem
from interleave_thinker.backend.story.journal.run_files import plan_digest
from interleave_thinker.backend.story.loop import policy


def attempt(width: int, success: bool | None, probability: float | None = None) -> Attempt:
    verdict = Verdict(success=success, probability=probability)
    return Attempt(prompt="a boat", seed=width, image=Picture.white((width, 8)), verdict=verdict)


@pytest.mark.parametrize("success", [True, False])
def test_the_first_of_equally_good_accepted_attempts_wins_and_the_last_rejected(success: bool) -> None:
    attempts = [attempt(width, success, 0.75) for width in (8, 9, 10)]
    settings = RunSettings(max_attempts=3, candidates=3)
    assert policy.choose(attempts, settings) == (0 if success else 2)


def test_with_keep_last_the_last_image_wins_unless_one_is_accepted() -> None:
    last = RunSettings(keep="last")
    assert policy.choose([attempt(8, False, 0.9), attempt(9, False, 0.1)], last) == 1
    assert policy.choose([attempt(8, True, 0.6), attempt(9, False, 0.9)], last) == 0


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


@pytest.mark.parametrize(
    ("rule", "candidates", "equal"),
    [("every attempt", 1, None), ("every step", 1, 0), ("every step", 2, 1), ("1000 per step", 1, 0)],
)
def test_a_seed_follows_its_rule(rule: policy.SeedRule, candidates: int, equal: int | None) -> None:
    seeds = [policy.attempt_seed(7, 2, number, rule, candidates) for number in range(4)]
    if equal is None:
        assert len(set(seeds)) == 4
    else:
        assert seeds == [*seeds[:candidates]] * (4 // candidates) and len(set(seeds)) == candidates
    if rule == "1000 per step":
        assert seeds[0] == 1007


def test_the_next_prompt_refines_the_best_verdict_within_the_limit() -> None:
    refined = [
        Attempt(
            prompt="a", seed=1, verdict=Verdict(success=False, probability=one, refined_prompt=f"b {one}")
        )
        for one in (0.1, 0.4)
    ]
    assert policy.next_prompt(refined) == "b 0.4" and policy.next_prompt(refined, "Ink") == "Ink. b 0.4"
    assert policy.next_prompt([Attempt(prompt="Ink. a", seed=1)], "Ink") == "Ink. a"
    long = Verdict(success=False, refined_prompt="x" * MAX_TEXT)
    assert policy.next_prompt([Attempt(prompt="Ink. a", seed=1, verdict=long)], "Ink") == "Ink. a"


def test_a_rewritten_step_is_generated_from_text_and_fits_the_style() -> None:
    plan = Plan(steps=(Step(number=1, prompt="add a boat"),), style="Ink")
    failed = [attempt(8, False), attempt(9, False), Attempt(prompt="a", seed=1, place=1)]
    result = StepResult(
        step=plan.steps[0], attempts=tuple(failed), stop_reason=StopReason.attempts_used_up, chosen=0
    )
    step = policy.from_text(result, plan, "a sea with a boat")
    assert step and step.settings.source == "text" and step.rewritten
    assert step.rewritten.draws == 2, "the images of one call count once"
    assert policy.from_text(result, plan, " \n ") is None
    assert policy.from_text(result, plan, "x" * (MAX_TEXT - 3)) is None
    left = RunSettings(max_draws=5)
    assert policy.draws_left([result], left) == 3 and policy.draws_left([result], left, step) == 1


@pytest.mark.parametrize("pause", ["never", "after the plan", "at rejected steps", "every step"])
def test_a_run_waits_where_its_settings_ask(pause: str) -> None:
    settings = RunSettings.model_validate({"pause": pause})

    def waits(reason: StopReason) -> bool:
        step = Step(number=1, prompt="a boat")
        result = StepResult(step=step, attempts=(attempt(8, True),), chosen=0, stop_reason=reason)
        waiting = policy.waits_at(result, settings)
        assert waiting is None or waiting.attempt == 1, "attempts are counted from 1"
        return waiting is not None

    rejected = pause in ("at rejected steps", "every step")
    for reason in (StopReason.attempts_used_up, StopReason.unchecked, StopReason.redrawn, StopReason.error):
        assert waits(reason) is rejected
    assert waits(StopReason.accepted) is waits(StopReason.unjudged) is (pause == "every step")
    assert not waits(StopReason.picked) and not waits(StopReason.skipped)
    plan = Plan(steps=(Step(number=1, prompt="a boat"),))
    asked = policy.waits_for_plan(plan, settings, None)
    assert (asked is not None) is (pause in ("after the plan", "every step"))
    assert policy.waits_for_plan(plan, settings, plan_digest(plan)) is None


def test_a_refined_prompt_with_items_stays_within_the_limit() -> None:
    long = "x" * (MAX_TEXT - 10)
    item = CheckedItem(text="The boat is red.", kind="color", passed=False)
    judged = policy.with_items(Verdict(success=True, refined_prompt=long), [item], "a boat")
    assert judged.success is False and judged.refined_prompt == long
    short = policy.with_items(Verdict(success=True, refined_prompt="a boat"), [item], "a boat")
    assert "The boat is red." in short.refined_prompt


def test_the_wrong_image_that_had_the_fewest_turns_is_reopened_first() -> None:
    def page(number: int, **result: object) -> StepResult:
        step = Step(number=number, prompt="a fox")
        one = attempt(7 + number, True).model_copy(update=result.pop("attempt", {}))
        return StepResult(
            **{"step": step, "attempts": (one,), "chosen": 0, "stop_reason": "accepted", **result}
        )

    pages = [page(1), page(2), page(3)]
    check = StoryCheck(
        key="k",
        checker="c",
        images={},
        findings=tuple(StoryFinding(step=one, kind="state", problem="It is night.") for one in (2, 3)),
    )
    assert policy.step_to_reopen(pages, check, []) == pages[1]
    assert pages[1].image and policy.step_to_reopen(pages, check, [pages[1].image.digest]) == pages[2]
    picked = page(2, stop_reason="picked")
    asked = page(3, attempt={"redraw": Redraw(number=1)})
    assert policy.step_to_reopen([picked, asked], check, []) is None, "the user chose both"
    again = page(3, attempt={"redraw": Redraw(number=1, by="story check")})
    assert policy.step_to_reopen([picked, again], check, []) == again
    assert policy.prompt_with_problems(pages[1], check) == "a fox. It is night."
    assert policy.step_to_reopen([page(1)], check, []) is None

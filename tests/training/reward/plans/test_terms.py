"""Terms of a plan's reward: format, number of steps, copied requests, and the sum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.types import Plan, Step
from interleave_thinker.training.reward.plan_reward import (
    PlanRewardSettings,
    asked_steps,
    combine_plan,
    copied_share,
    length_fit,
    plan_format,
)
from interleave_thinker.training.rows.rl import PlannerRlRow, StepRange

REQUEST = (
    "Please tell the story of a small red fox that walks through the snow at night, meets an owl on a fence "
    "and finds its way home."
)


def plan(*prompts: str) -> Plan:
    return Plan(steps=tuple(Step(number=n, prompt=text) for n, text in enumerate(prompts, 1)))


WHOLE = write_plan(plan("a fox", "an owl"))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (WHOLE, 1.0),
        (WHOLE + WHOLE, 0.0),
        (WHOLE.replace("</answer>", ""), 0.0),
        (WHOLE.replace("</think>", ""), 0.0),
        (WHOLE[:-20], 0.0),
        (WHOLE.replace('{"execution_plan"', '{"note": "", "execution_plan"'), 0.0),
        (WHOLE.replace('"step_number": 2', '"step_number": 1'), 0.0),
        ('<answer>{"execution_plan": []}</answer>', 0.0),
        ("no plan", 0.0),
        ("", 0.0),
    ],
)
def test_the_form_reward_expects_the_trained_form(text: str, form: float) -> None:
    assert plan_format(text) == form


def test_the_requested_step_count_scores_best_and_more_steps_never_help() -> None:
    asked = StepRange(least=3, most=4)
    fits = [length_fit(count, asked) for count in range(1, 12)]
    assert fits[2] == fits[3] == 1.0 and max(fits) == 1.0
    assert fits[:2] == pytest.approx([1 / 3, 2 / 3]) and fits[4] == 0.75 and fits[7:] == [0.0] * 4
    assert length_fit(50, None) == 1.0


def test_the_expected_step_count_comes_from_the_row_or_request() -> None:
    row = PlannerRlRow(request="Tell it in exactly 4 pictures.", checklist=["a fox"])
    assert asked_steps(row) == StepRange(least=4, most=4)
    assert asked_steps(row.model_copy(update={"steps": StepRange(least=2, most=3)})) == StepRange(
        least=2, most=3
    )
    assert asked_steps(PlannerRlRow(request="A fox.", checklist=["a fox"])) is None


def test_copied_requests_are_detected_and_quoted_steps_are_not() -> None:
    assert copied_share(plan(REQUEST, "an owl"), REQUEST) == 1.0
    assert copied_share(plan(f"In oil: {REQUEST.upper()} Fine.", "an owl"), REQUEST) == 1.0
    steps = plan("a small red fox walks through the snow at night", "an owl on a fence")
    assert 0 < copied_share(steps, REQUEST) < 0.5
    first = f"{REQUEST.partition(',')[0]} in watercolour"
    assert 0.5 < copied_share(plan(first, "an owl"), REQUEST) < 0.8
    assert copied_share(plan(REQUEST), REQUEST) == 0.0, "one step may be the request"
    assert copied_share(plan("a red boat", "a red boat"), "a red boat") == 0.0
    long = " ".join(f"word{number}" for number in range(900))
    assert copied_share(plan(long, "an owl"), long) == 1.0, "a long request is copied no less"


@given(
    st.lists(st.sampled_from("ab"), min_size=24, max_size=40), st.lists(st.sampled_from("ab"), max_size=30)
)
def test_the_longest_copied_run_is_found(request_words: list[str], words: list[str]) -> None:
    runs = [
        size
        for size in range(len(words) + 1)
        for at in range(len(words) - size + 1)
        if f" {' '.join(words[at : at + size])} " in f" {' '.join(request_words)} " or not size
    ]
    found = copied_share(plan(" ".join(words) or "x", "x"), " ".join(request_words))
    assert found == max(runs) / len(request_words)


def test_the_reward_is_one_for_the_best_and_zero_for_the_worst() -> None:
    assert combine_plan(format=1, match=1, consistency=1, length=1) == pytest.approx(1.0)
    assert combine_plan(format=0, match=0, consistency=0, length=0) == 0.0
    assert combine_plan(format=1, match=0, consistency=0, length=0) == pytest.approx(0.2)
    weights = PlanRewardSettings(format_weight=0, match_weight=1, consistency_weight=0, length_weight=0)
    assert combine_plan(format=1, match=0.5, consistency=1, length=1, weights=weights) == 0.5

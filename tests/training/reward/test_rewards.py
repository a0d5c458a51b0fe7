"""Formulas of the reward: published values computed by hand, ranges and order by property tests."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from interleave_thinker import AnswerError, Verdict
from interleave_thinker.backend.core.answers.reading import write_verdict
from interleave_thinker.training.reward.terms import (
    NEUTRAL,
    RewardWeights,
    accuracy_reward,
    combine,
    format_reward,
    improvement,
    read_answer,
    redraws,
)

GOOD = (
    '<think>a red boat</think>\n\n<answer>{"previous_step_success": false, "refine_prompt": "a red '
    'boat"}</answer>'
)
unit = st.floats(0, 1)
points = st.floats(0, 10)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        '<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>',
        "<think></think><answer>{'previous_step_success': True, 'refine_prompt': 'it\\'s'}</answer>",
        '<think>x</think> <answer>\n```json\n{"success": true, "refined_prompt": "b"}\n```\n</answer>',
    ],
)
def test_the_trained_form_scores_one(text: str) -> None:
    assert format_reward(text) == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        GOOD.removesuffix("</answer>"),
        GOOD.replace("</think>", ""),
        GOOD.replace("<think>", ""),
        GOOD.replace("<think>", "<think>no, <think>"),
        GOOD + GOOD,
        '<answer>{"previous_step_success": true, "refine_prompt": ""}</answer><think>x</think>',
        '{"previous_step_success": true, "refine_prompt": ""}',
        '<answer>{"previous_step_success": "true", "refine_prompt": ""}</answer>',
        '<answer>{"previous_step_success": 1, "refine_prompt": ""}</answer>',
        '<answer>{"previous_step_success": true, "refine_prompt": null}</answer>',
        '<answer>{"previous_step_success": true}</answer>',
        '<answer>{"refine_prompt": "a"}</answer>',
        (
            '<answer>[{"previous_step_success": true, "refine_prompt": "a"}, {"previous_step_success": true, '
            '"refine_prompt": "b"}]</answer>'
        ),
        '<answer>{"previous_step_success": true, "refine_prompt": "a</answer>',
        "<answer>" + "{" * 5000 + "</answer>",
    ],
)
def test_everything_else_is_zero(text: str) -> None:
    assert format_reward(text) == 0.0


FIRST = '<answer>{"previous_step_success": false, "refine_prompt": "a red boat"}</answer>'


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (FIRST, 1.0),
        (f"{FIRST}\n<think>a <answer> within the reasoning</think>", 1.0),
        (GOOD, 0.0),
        (f"{FIRST}<think>not closed", 0.0),
        (f"{FIRST}<think>x</think>{FIRST}", 0.0),
        (f"{FIRST}<think>x<think>y</think>", 0.0),
        (f"<think>x</think>{FIRST}<think>y</think>", 0.0),
    ],
)
def test_a_critic_that_was_taught_to_answer_first_keeps_that_form(text: str, right: float) -> None:
    assert format_reward(text, verdict_first=True) == right


@given(success=st.booleans(), refined=words, reasoning=words)
@example(success=False, refined="a", reasoning="an <answer> within the reasoning")
@example(success=False, refined="</answer>", reasoning="</answer>")
def test_written_replies_have_the_trained_form(success: bool, refined: str, reasoning: str) -> None:
    assume("<think>" not in reasoning)
    try:
        text = write_verdict(Verdict(success=success, refined_prompt=refined, reasoning=reasoning))
    except AnswerError:
        return
    assert format_reward(text) == 1.0
    verdict = read_answer(text)
    assert verdict is not None and verdict.success is success and verdict.refined_prompt == refined


@given(st.text(max_size=300))
def test_any_text_has_a_form_reward(text: str) -> None:
    assert format_reward(text) in (0.0, 1.0)
    assert format_reward(f"<answer>{text}</answer>") in (0.0, 1.0)


def test_accuracy() -> None:
    assert [accuracy_reward(v, t) for v in (True, False, None) for t in (True, False)] == [1, 0, 0, 1, 0, 0]


def test_published_values_by_hand() -> None:
    assert (improvement(3, [9]), improvement(8, [7])) == (0.8, 0.45)
    assert combine(format=1, accuracy=1, semantic=0.8, quality=0.45) == pytest.approx(0.885)
    assert combine(format=1, accuracy=0, semantic=0.5, quality=0.5) == pytest.approx(0.7)
    assert combine(format=0, accuracy=0, semantic=0.5, quality=0.5) == pytest.approx(0.2)
    assert combine(format=1, accuracy=1, semantic=1, quality=1) == 1.0
    assert combine(format=0, accuracy=0, semantic=0, quality=0) == 0.0


@given(points, points)
def test_steps_are_in_range_and_mirror(before: float, after: float) -> None:
    there, back = improvement(before, [after]), improvement(after, [before])
    assert 0 <= there <= 1 and there + back == pytest.approx(1)
    assert improvement(before, [before]) == improvement(before, []) == NEUTRAL


@given(unit, unit, unit, unit, st.floats(0, 0.5))
def test_the_sum_rises(form: float, accuracy: float, semantic: float, quality: float, more: float) -> None:
    terms = {"format": form, "accuracy": accuracy, "semantic": semantic, "quality": quality}
    whole = combine(**terms)
    assert 0 <= whole <= 1 + 1e-12
    for name, value in terms.items():
        assert combine(**{**terms, name: min(1.0, value + more)}) >= whole - 1e-12


def test_a_wrong_rejection_costs_a_tenth_or_the_loss_of_the_image() -> None:
    accept = combine(format=1, accuracy=1, semantic=0.5, quality=0.5)
    refuse = combine(format=1, accuracy=0, semantic=0.5, quality=0.5)
    assert accept - refuse == pytest.approx(0.1)
    worst = combine(format=1, accuracy=0, semantic=improvement(10, [0]), quality=improvement(10, [0]))
    assert refuse - worst == pytest.approx(0.2)


def test_the_reward_selects_the_answers_to_redraw() -> None:
    cases = [(truth, verdict) for truth in (True, False) for verdict in (True, False, None)]
    assert [case for case in cases if redraws(*case)] == [(False, True), (False, False)]
    assert [case for case in cases if redraws(*case, "refused")] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_weights_switch_terms_off() -> None:
    weights = RewardWeights(semantic_weight=0, quality_weight=0)
    assert not weights.need_steps and RewardWeights().need_steps
    assert combine(format=1, accuracy=1, semantic=0.1, quality=0.9, weights=weights) == pytest.approx(0.6)


def test_a_refined_prompt_is_read_literally() -> None:
    found = read_answer('<answer>{"previous_step_success": false, "refine_prompt": "red / blue"}</answer>')
    assert found is not None and found.refined_prompt == "red / blue"
    assert read_answer("nothing here") is None

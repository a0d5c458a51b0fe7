"""A judge's answer is read only in the requested format and never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.evaluation.benchmarks.base.question import OF_FIVE, OF_TEN, YES_OR_NO, Scale


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("yes", 1),
        ("No", 0),
        ("**Yes.**", 1),
        ("Yes, it does.", 1),
        ("Answer: no", 0),
        ("yes — all of it", 1),
        ("The sky is blue.\nno", 0),
        ("Yes, there is no fault.", 1),
        ("yes\nbecause\nno", None),
        ("Yes, no.", None),
        ("No. Wait, yes", None),
        ("Not sure", None),
        ("nothing", None),
        ("yesterday", None),
        ("It does, yes", None),
        ("1", None),
        ("", None),
    ],
)
def test_yes_or_no(answer: str, said: int | None) -> None:
    assert YES_OR_NO.read(answer) == said


@pytest.mark.parametrize(
    ("scale", "answer", "said"),
    [
        (OF_FIVE, "4", 4),
        (OF_FIVE, "**5**", 5),
        (OF_FIVE, "Score: 3/5", 3),
        (OF_FIVE, "3 out of 5.", 3),
        (OF_FIVE, "The score is 2", 2),
        (OF_FIVE, "0", None),
        (OF_FIVE, "6", None),
        (OF_FIVE, "3/10", None),
        (OF_FIVE, "3.5", None),
        (OF_FIVE, "between 3 and 4", None),
        (OF_FIVE, "4\nThe reasons are 3\n2", None),
        (OF_TEN, "10", 10),
        (OF_TEN, "There are 3 pictures.\n7", 7),
        (OF_TEN, "-3", None),
        (OF_TEN, "NaN", None),
    ],
)
def test_numbers(scale: Scale, answer: str, said: int | None) -> None:
    assert scale.read(answer) == said


@given(st.text(max_size=200), st.sampled_from([YES_OR_NO, OF_FIVE, OF_TEN]))
def test_any_text_is_a_value_of_the_scale_or_unread(answer: str, scale: Scale) -> None:
    said = scale.read(answer)
    assert said is None or scale.low <= said <= scale.high

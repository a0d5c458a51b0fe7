"""Example texts of a template are never used as content."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.core.answers.answer_models import is_placeholder
from interleave_thinker.backend.core.answers.long_plan import read_outline
from interleave_thinker.backend.core.errors import AnswerError


@pytest.mark.parametrize(
    "text",
    [
        "Text 1",
        "1.",
        "wait for it ...",
        "",
        "a prompt on a screen",
        "<b>Boat</b>",
        "a < b and c > d",
        "{1, 2}",
    ],
)
def test_other_texts_are_content(text: str) -> None:
    assert not is_placeholder(text)


def test_an_outline_that_repeats_the_form_is_rejected() -> None:
    lines = '["1. what happens in the first step", "2. what happens in the second step"]'
    with pytest.raises(AnswerError, match="copy of the example"):
        read_outline(f'<answer>{{"outline": {lines}, "always": "rain"}}</answer>')
    with pytest.raises(AnswerError, match="copy of the example"):
        read_outline('<answer>{"outline": ["1. A walk"], "always": "Style, place, looks"}</answer>')


@pytest.mark.parametrize(
    "text",
    [
        "String or null",
        "<text>",
        "image_prompt or null",
        "[instruction]",
        " {image_prompt} ",
        "<your prompt>",
    ],
)
def test_the_type_or_name_of_a_value_is_not_content(text: str) -> None:
    assert is_placeholder(text)

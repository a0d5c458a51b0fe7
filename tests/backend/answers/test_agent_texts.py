"""Example texts of a template are never used as content."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interleave_thinker.backend.answers.agent_texts import is_placeholder
from interleave_thinker.backend.answers.long_plan import read_outline
from interleave_thinker.backend.errors import AnswerError
from interleave_thinker.backend.prompts import EARLIER, TEMPLATES

FORM = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
VALUE = re.compile(r"[:\[,] \"((?:[^\"\\]|\\.)*)\"(?!:)")
WITH_PLACEHOLDERS = sorted(path for name in EARLIER for path in (TEMPLATES / name).glob("*.txt"))
"""Templates whose answer format has placeholders. Later ones have a whole answer as an example."""


@pytest.mark.parametrize("path", WITH_PLACEHOLDERS, ids=lambda path: path.stem)
def test_every_placeholder_of_every_template_is_known(path: Path) -> None:
    (form,) = FORM.findall(path.read_text(encoding="utf-8").replace(", or null", " or null"))
    examples = VALUE.findall(form.replace('["', '[ "'))
    assert examples, form
    for example in examples:
        assert is_placeholder(example), example
        assert is_placeholder(f" {example.upper()} !")
        assert not is_placeholder(f"{example} a red boat")


@pytest.mark.parametrize(
    "text",
    [
        "Boat",
        "Step 1",
        "Text 1",
        "1.",
        "?!",
        "a ...",
        "wait for it ...",
        "\U0001f389",
        "",
        "<think>",
        "a prompt on a screen",
        "<b>Boat</b>",
        "a < b and c > d",
        "{1, 2}",
        "[a red boat]",
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
        "string",
        "String or null",
        "<text>",
        "TEXT or null",
        "prompt",
        "<Prompt>",
        "image_prompt or null",
        "auxiliary_text",
        "[instruction]",
        "{prompt}",
        " {image_prompt} ",
        "<what the image shows>",
        "<your prompt>",
    ],
)
def test_the_type_or_name_of_a_value_is_not_content(text: str) -> None:
    assert is_placeholder(text)

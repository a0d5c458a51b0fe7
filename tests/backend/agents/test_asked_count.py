"""The number of steps that a request names, in several languages, and numbers that mean something else."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.agents.asked_count import AskedCount, asked_count

FORTY = AskedCount(40, 40, exact=True)


@pytest.mark.parametrize(
    "text",
    [
        "In exactly 40 steps, not 38: A tale.",
        "A tale in forty pictures, with 3 scenes of rain.",
        "exactly 40 small coloured panels",
        "用四十步讲一个故事",
        "分40个步骤",
        "in 40 Schritten",
        "en 40 étapes",
    ],
)
def test_an_exact_number_is_found(text: str) -> None:
    assert asked_count(text) == FORTY


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("a 20-step guide", 20, 20),
        ("13 to 20 images of a fox", 13, 20),
        ("12-15 steps", 12, 15),
        ("十到十五步", 10, 15),
        ("40コマの漫画で", 40, 40),
        ("describe these three pictures", 3, 3),
        ("a walk of twenty-five drawings", 25, 25),
        ("Mussorgsky's 10 pictures, then 30 pages", 30, 30),
    ],
)
def test_the_allowed_number_of_steps_is_read_from_the_request(text: str, least: int, most: int) -> None:
    assert asked_count(text) == AskedCount(least, most)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Draw a sea page.",
        "2 cats and 3 boats",
        "in 1984 pictures",
        "Step 14 of it",
        "20 to 3 steps",
        "0 steps",
    ],
)
def test_a_request_without_a_number_has_none(text: str) -> None:
    assert asked_count(text) is None

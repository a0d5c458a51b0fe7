"""The tiny critic's reasoning in plain English."""

from __future__ import annotations

from random import Random

import pytest
from support.rendered_pages import rendered

from interleave_thinker.tinyworld.oracle import compare
from interleave_thinker.tinyworld.reasoning import as_english

RIGHT_PAGE = "was page blank want page sea see page sea yes"
RIGHT_SUN = (
    "was top right nothing want top right yellow sun see top right yellow sun: yellow yellow yes, sun sun yes"
)


def test_a_correct_page_is_described_as_correct() -> None:
    gone = "was middle red boat want middle nothing see middle nothing yes"
    assert as_english(f"{RIGHT_PAGE}; {RIGHT_SUN}; {gone}; so yes") == (
        "All is as it should be: the sea page and a yellow sun at the top right. "
        "The red boat in the middle is gone, as it should be."
    )


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (
            "was left red boat want left red boat see left blue boat: red blue no, boat boat yes",
            "At the left there should still be a red boat, but there is a blue boat.",
        ),
        (
            "was left nothing want left red boat see left nothing no",
            "At the left there should be a red boat, but there is nothing.",
        ),
        (
            "was left red boat want left red boat see left nothing no",
            "At the left there should be a red boat, but it is gone.",
        ),
        (
            "was left red boat want left nothing see left red boat no",
            "At the left the red boat should be gone, but it is still there.",
        ),
        (
            "was left nothing want left nothing see left red boat no",
            "At the left there should be nothing, but there is a red boat.",
        ),
        (
            "was left nothing want left red boat see left smudge no",
            "At the left there should be a red boat, but what is there cannot be made out.",
        ),
    ],
)
def test_a_fault_is_described_first(cell: str, sentence: str) -> None:
    said = as_english(f"{RIGHT_PAGE}; {cell}; {RIGHT_SUN}; so no")
    assert said == f"{sentence} As it should be: the sea page and a yellow sun at the top right."


def test_a_wrong_page_is_described_as_wrong() -> None:
    said = as_english("was page sea want page night see page sea no; so no")
    assert said == "The page should be night, but it is sea."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The boat is blue; it should be red; so no",
        f"{RIGHT_PAGE}; {RIGHT_SUN}",
        f"{RIGHT_PAGE}; {RIGHT_SUN}; so no",
        f"{RIGHT_PAGE}; {RIGHT_SUN.replace('sun yes', 'sun no')}; so yes",
        f"{RIGHT_PAGE}; {RIGHT_SUN.replace('see top right', 'see left')}; so yes",
    ],
)
def test_other_or_contradictory_texts_are_shown_unchanged(text: str) -> None:
    assert as_english(text) == text


def test_every_taught_reasoning_can_be_read() -> None:
    rng = Random(1)
    for _ in range(300):
        text = compare(rendered(rng))
        said = as_english(text)
        assert said != text, text
        assert not {"want", "see", "yes", "no"} & set(said.replace(",", "").split()), said

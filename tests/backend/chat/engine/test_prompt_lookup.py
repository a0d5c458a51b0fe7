"""Drafts: the tokens after the longest equal sequence, and never more than its length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.backend.chat.engine.prompt_lookup import PromptLookup


def test_the_draft_continues_the_longest_match() -> None:
    #         the long one      a shorter one, later
    prompt = [1, 2, 3, 4, 5, 6, 9, 3, 4, 7, 8, 0, 1, 2, 3, 4]
    assert PromptLookup(prompt, 16).draft() == [5, 6, 9, 3]
    assert PromptLookup(prompt, 3).draft() == [5, 6, 9]
    assert PromptLookup(prompt, 2).draft() == [7, 8], "of stretches that are equal up to the limit the latest"
    assert PromptLookup([*prompt[:-1], 9], 16).draft() == []


def test_no_guess_without_two_equal_tokens() -> None:
    assert (
        PromptLookup([], 8).draft() == PromptLookup([1], 8).draft() == PromptLookup([1, 1], 8).draft() == []
    )
    assert PromptLookup([1, 1, 1], 8).draft() == [1]


@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=20), st.integers(1, 9))
def test_a_draft_is_the_text_that_followed_the_same_tokens(
    prompt: list[int], answer: list[int], limit: int
) -> None:
    drafts = PromptLookup(prompt, limit)
    for token in answer:
        drafts.add(token)
    said = [*prompt, *answer]
    guess = drafts.draft()
    assert guess == PromptLookup(said, limit).draft(), "the split between prompt and answer does not matter"
    assert len(guess) <= limit
    stretches = [said[at : at + 2 + len(guess)] for at in range(len(said) - 2)]
    if guess:
        assert [*said[-2:], *guess] in stretches
    else:
        assert all(stretch[:2] != said[-2:] for stretch in stretches)

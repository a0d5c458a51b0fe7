"""Which corrected prompt is learned for a failed attempt, and its source."""

from __future__ import annotations

import pytest

from interleave_thinker import Attempt, Picture, Verdict
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.output.sft_rows import CorrectedPrompt, Label, corrected_prompt_for

IMAGE, OTHER = (FakeGenerator(16).draw(prompt, None, 0) for prompt in ("a house", "a boat"))
REJECTED, ACCEPTED = Label(success=False), Label(success=True)


def attempt(prompt: str, source: Picture | None, refined: str = "") -> Attempt:
    verdict = Verdict(success=False, refined_prompt=refined) if refined else None
    return Attempt(prompt=prompt, seed=1, source=source, image=IMAGE, verdict=verdict)


@pytest.mark.parametrize("source", [None, IMAGE])
@pytest.mark.parametrize("other", [None, IMAGE, OTHER])
def test_a_corrected_prompt_has_the_same_source(source: Picture | None, other: Picture | None) -> None:
    attempts = [attempt("a sun", source), attempt("a yellow sun", other)]
    found = ("a yellow sun", "later attempt") if other is source else ("a sun", "none")
    expected = CorrectedPrompt(*found)
    assert corrected_prompt_for(attempts, [REJECTED, ACCEPTED], 0) == expected


@pytest.mark.parametrize("other", [IMAGE, OTHER])
def test_a_refined_prompt_fails_only_on_the_same_source(other: Picture) -> None:
    attempts = [attempt("a sun", IMAGE, refined="a yellow sun"), attempt("a yellow sun", other)]
    expected = (
        CorrectedPrompt("a sun", "none") if other is IMAGE else CorrectedPrompt("a yellow sun", "critic")
    )
    assert corrected_prompt_for(attempts, [REJECTED, REJECTED], 0) == expected


def test_the_users_prompt_has_priority() -> None:
    attempts = [attempt("a sun", IMAGE, refined="a bright sun"), attempt("a yellow sun", IMAGE)]
    assert corrected_prompt_for(attempts, [REJECTED, ACCEPTED], 0, " a blue sun ") == CorrectedPrompt(
        "a blue sun", "person"
    )
    assert corrected_prompt_for(attempts, [REJECTED, ACCEPTED], 0, " ") == CorrectedPrompt(
        "a yellow sun", "later attempt"
    )

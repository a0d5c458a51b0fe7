"""A request with words outside of the tiny world is rejected, and the words are named."""

from __future__ import annotations

from typing import get_args

import pytest

from interleave_thinker import Planner, Request, SettingsError, open_chat
from interleave_thinker.backend.story.agents.plan_constraints import CaptionStyle, PlanConstraints, worded
from interleave_thinker.backend.story.agents.text_writers import (
    CastWriter,
    PromptEnhancer,
    StepRewriter,
    Translator,
    Writer,
)
from interleave_thinker.tinyworld import DEMO_REQUEST
from interleave_thinker.tinyworld.vocabulary import EXAMPLE, check_request, unknown_words


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        (DEMO_REQUEST, []),
        (EXAMPLE, []),
        ("<image> 1. Move the BOAT to the left.", []),
        (
            "Explain how bread is baked in four pictures",
            ["explain", "how", "bread", "is", "baked", "four", "pictures"],
        ),
        ("add a white owl, an owl!", ["owl", "an"]),
        ("画一只猫", ["画一只猫"]),
        ("", []),
    ],
)
def test_unknown_words_are_found(text: str, unknown: list[str]) -> None:
    assert unknown_words(text) == unknown


def test_the_error_lists_unknown_and_known_words() -> None:
    with pytest.raises(SettingsError) as raised:
        check_request("Explain how bread is baked")
    assert "explain, how, bread, is, baked" in raised.value.message
    assert all(word in str(raised.value) for word in ("meadow", "flower", "yellow", "bottom right", EXAMPLE))


def test_a_request_longer_than_those_of_the_training_is_refused() -> None:
    check_request("add a red sun. " * 40)
    with pytest.raises(SettingsError, match="has 615 characters"):
        check_request("add a red sun. " * 41)


@pytest.mark.parametrize("captions", get_args(CaptionStyle))
def test_step_counts_and_captions_can_be_requested(captions: CaptionStyle) -> None:
    constraints = PlanConstraints(step_count=3, captions=captions)
    check_request(worded(EXAMPLE, constraints, wrong_count=2))


def test_the_planner_is_not_called() -> None:
    class Silent:
        identity, prompt_set = "silent", None

        def check_request(self, text: str) -> None:
            check_request(text)

        def reply(self, *_: object) -> None:
            raise AssertionError("it was asked")

    with pytest.raises(SettingsError, match="owl"):
        Planner(Silent()).plan(Request(text="add a white owl"))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [CastWriter, PromptEnhancer, StepRewriter, Translator])
def test_other_writers_refuse_its_agents(kind: type[Writer]) -> None:
    with pytest.raises(SettingsError, match="write only plans or verdicts"):
        kind(open_chat("tinyworld:planner"))


def test_the_shipped_planner_checks_its_requests() -> None:
    with pytest.raises(SettingsError, match="bread"):
        Planner(open_chat("tinyworld:planner")).plan(Request(text="Draw bread."))

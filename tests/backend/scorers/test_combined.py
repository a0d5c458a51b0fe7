"""Combinations of scorers, options in names, and the pairwise judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import AnswerError, ScorerError, SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.scorers import open_scorer
from interleave_thinker.backend.scorers.about import NOT_STATED, stated
from interleave_thinker.backend.scorers.combined import CombinedScorer, lowest, weighted_mean
from interleave_thinker.backend.scorers.pairwise import PairwiseJudge, read_comparison
from interleave_thinker.backend.scorers.protocol import Parts
from interleave_thinker.backend.scorers.specs import Member, split_members, split_options
from interleave_thinker.backend.types import Score
from interleave_thinker.training.reward.redraws.turns import Card

BEFORE, ONE, OTHER = (Picture(Image.new("RGB", (8, 6), (shade, 0, 0))) for shade in (10, 20, 30))


class Fixed:
    """A scorer of fixed parts that counts how often its device was freed."""

    def __init__(self, semantics: float | None, quality: float | None = None, name: str = "fixed") -> None:
        self.fixed, self.identity, self.freed = Parts(semantics, quality), name, 0

    def parts(self, before: Picture | None, after: Picture, instruction: str) -> Parts:
        return self.fixed

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        return self.fixed.score

    def offload(self) -> None:
        self.freed += 1


def test_parts_that_a_member_does_not_measure_are_left_out() -> None:
    members = [(3.0, Fixed(8, 4)), (1.0, Fixed(4))]
    mean = CombinedScorer("mean", members, weighted_mean)
    assert mean.score(BEFORE, ONE, "a") == Score(semantics=7, quality=4)
    assert CombinedScorer("min", members, lowest).score(BEFORE, ONE, "a") == Score(semantics=4, quality=4)
    nothing = CombinedScorer("mean", [(1.0, Fixed(None)), (1.0, Fixed(None))], weighted_mean)
    assert nothing.parts(BEFORE, ONE, "a") == (None, None)
    assert nothing.score(BEFORE, ONE, "a") == Score(semantics=10, quality=10)


def test_mean_of_the_highest_scores_is_a_valid_score() -> None:
    members = [(0.1, Fixed(10, 10)), (4.1, Fixed(10, 10))]
    assert CombinedScorer("mean", members, weighted_mean).score(BEFORE, ONE, "a").overall == 10


def test_combination_frees_the_devices_of_its_members_for_a_training() -> None:
    members = (Fixed(1), Fixed(2))
    Card(object(), CombinedScorer("mean", [(1.0, one) for one in members], weighted_mean))
    assert [one.freed for one in members] == [1, 1]


def test_combinations_are_opened_by_name_and_identified_by_weights(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(["[8, 8]", "[6, 6]"]))
    judge = f"judge:scripted:{tmp_path / 'script.json'}"
    scorer = open_scorer(f"mean:3*{judge} + {judge}")
    assert scorer.score(BEFORE, ONE, "a boat") == Score(semantics=8, quality=6)
    assert scorer.identity != open_scorer(f"mean:{judge} + {judge}").identity
    assert scorer.identity.startswith("mean(3*judge:scripted:")


def test_repeat_averages_the_samples(tmp_path: Path) -> None:
    replies = ["[8, 8]", "[6, 6]", "[4, 5]", "[8, 9]"]
    (tmp_path / "script.json").write_text(json.dumps(replies))
    scorer: Any = open_scorer(f"repeat:2:judge:scripted:{tmp_path / 'script.json'}")
    assert scorer.score(BEFORE, ONE, "a boat") == Score(semantics=6, quality=7)
    assert [request.settings.seed for request in scorer.chat.requests] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("mean:tinyworld", "2 to 8"),
        ("mean:tinyworld + ", "2 to 8"),
        ("mean:0*tinyworld + tinyworld", "weight"),
        ("min:2*tinyworld + tinyworld", "no weights"),
        ("mean:tinyworld + none-such", "none-such"),
        ("repeat:1:tinyworld", "2 to 32"),
        ("repeat:4:tinyworld", "same score"),
        ("judge[adapter]:scripted:x", "adapter"),
        ("judge[speed=3]:scripted:x", "speed"),
        ("tinyworld[device=cpu]", "device"),
    ],
)
def test_wrong_names_of_scorers_are_errors(spec: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        open_scorer(spec)


def test_options_and_members_are_read_from_names() -> None:
    found = split_options("editscore[adapter=C:/a b, download=true]:openai:M@http://h:1/v1?x=[1]")
    assert found == ("editscore:openai:M@http://h:1/v1?x=[1]", {"adapter": "C:/a b", "download": True})
    assert split_options("judge:openai:M@http://[::1]:8000/v1")[1] == {}
    members = split_members("0.5*editscore[device=cpu]:a+b + similarity:c")
    assert members == [Member(0.5, "editscore[device=cpu]:a+b"), Member(1.0, "similarity:c")]


def chosen(*words: str) -> ScriptedChat:
    return ScriptedChat([f"<think>first or second?</think><answer>{word}</answer>" for word in words])


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (("first", "second"), 1),
        (("second", "first"), 0),
        (("first", "first"), 0.5),
        (("equal", "second"), 0.75),
        (("equal", "equal"), 0.5),
    ],
)
def test_a_comparison_counts_if_both_orders_agree(words: tuple[str, str], share: float) -> None:
    chat = chosen(*words)
    judge = PairwiseJudge(chat)
    assert judge.compare(BEFORE, ONE, OTHER, "a {images} boat") == share
    shown = [request.messages[0].content for request in chat.requests]
    assert [content[:3] for content in shown] == [(BEFORE, ONE, OTHER), (BEFORE, OTHER, ONE)]
    assert "a {images} boat" in str(shown[0][3])
    assert judge.disagreements == (words == ("first", "first"))


def test_images_of_a_step_are_compared_with_each_other() -> None:
    # ONE beats OTHER and BEFORE, OTHER against BEFORE is contradictory.
    judge = PairwiseJudge(chosen("first", "second", "first", "second", "first", "first"))
    scores = judge.score_together(None, [ONE, OTHER, BEFORE], "a boat")
    assert [score.overall for score in scores] == [10, 2.5, 2.5]
    assert judge.chat.requests[0].messages[0].content[:2] == (ONE, OTHER)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ScorerError, match="maximum 16"):
        judge.score_together(None, [ONE] * 17, "a boat")


def test_an_unreadable_comparison_is_requested_again_and_then_raises() -> None:
    chat = ScriptedChat(["The first.", "<answer>first</answer>", "<answer>second</answer>"])
    assert PairwiseJudge(chat).score(BEFORE, ONE, "a boat") == Score(semantics=10, quality=10)
    with pytest.raises(ScorerError, match="cannot be read"):
        PairwiseJudge(ScriptedChat(["neither"] * 2)).score(BEFORE, ONE, "a boat")


@pytest.mark.parametrize(
    "text", ["", "the first is better", "<answer>first</answer><answer>second</answer>", "<think>first"]
)
def test_other_comparisons_are_rejected(text: str) -> None:
    with pytest.raises(AnswerError):
        read_comparison(text)


def test_a_plug_in_states_its_facts_in_a_dictionary() -> None:
    about = stated({"license": "MIT\x1b[31m\nof others", "memory": 3, "other": "x"}, "mine")
    assert (about.usage, about.memory, about.range) == ("mine", NOT_STATED, NOT_STATED)
    assert about.license == "MIT[31m of others"
    assert stated(None, "mine").license == NOT_STATED

"""EditScore, UnifiedReward and RationalRewards: published forms and scales, and prompts of a checkout."""

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
from interleave_thinker.backend.scorers.rational import RationalRewards, read_rational
from interleave_thinker.backend.scorers.reward_models import RewardJudge, read_reward
from interleave_thinker.backend.scorers.reward_prompts import scores_to_25
from interleave_thinker.backend.types import Score
from interleave_thinker.training.data.from_runs.repeated_scorer import RepeatedScorer

BEFORE, AFTER = (Picture(Image.new("RGB", (8, 6), (shade, 0, 0))) for shade in (10, 20))


def answer(first: float, second: float) -> str:
    return json.dumps({"reasoning": 'The "boat" is there, unlike [1, 2].', "score": [first, second]})


def test_scores_to_25_become_10_and_the_lower_number_counts() -> None:
    chat = ScriptedChat([answer(20, 15), answer(25, 22.5)])
    scorer = RewardJudge(chat, prompts=scores_to_25("editscore"))
    assert scorer.score(BEFORE, AFTER, "add a {instruction} boat") == Score(semantics=6, quality=9)
    semantics, quality = (request.messages[0].content for request in chat.requests)
    assert semantics[:2] == (BEFORE, AFTER) and "add a {instruction} boat" in str(semantics[2])
    assert quality[:1] == (AFTER,) and len(quality) == 2
    assert scorer.identity.startswith("editscore:scripted:")


@pytest.mark.parametrize(
    "text",
    [
        '{"reasoning": "ok", "score": [20, 5]}',
        '```json\n{"score": [20, 5], "reasoning": "not [1, 1]"}\n```',
        '{"reasoning": "the "big" sign, [3, 4]", "score": [20.0, 5.0],}',
        "[20, 5]",
        "<think>[1, 2]</think>[20, 5]",
    ],
)
def test_forms_that_published_models_write_are_read(text: str) -> None:
    assert read_reward(text) == (20, 5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20",
        '{"score": [20]}',
        '{"score": [26, 5]}',
        '{"score": [-1, 5]}',
        '{"score": [20, 5]} {"score": [5, 20]}',
        '{"score": ["a", "b"]}',
        '{"reasoning": "[20, 5]"}',
    ],
)
def test_other_rewards_are_errors_and_never_guessed(text: str) -> None:
    with pytest.raises(AnswerError):
        read_reward(text)


def test_an_unreadable_reward_is_requested_once_more() -> None:
    chat = ScriptedChat(["no", answer(25, 25), answer(25, 25)])
    scorer = RewardJudge(chat, prompts=scores_to_25("editscore"))
    assert scorer.score(BEFORE, AFTER, "a boat").overall == 10
    with pytest.raises(ScorerError, match="cannot be read"):
        RewardJudge(ScriptedChat(["no", "no"])).score(BEFORE, AFTER, "a boat")


def test_repeats_of_data_filter_sample_it() -> None:
    chat = ScriptedChat([answer(25, 25), answer(25, 25), answer(5, 25), answer(25, 25)] * 2)
    scorer = RepeatedScorer(RewardJudge(chat, prompts=scores_to_25("editscore")), 2)
    assert scorer.score(BEFORE, AFTER, "a boat").semantics == 6
    assert [request.settings.temperature > 0 for request in chat.requests[:4]] == [False, False, True, True]


def test_prompts_of_a_checkout_are_used_as_published(tmp_path: Path) -> None:
    module = tmp_path / "editscore" / "vie_prompts.py"
    module.parent.mkdir()
    names = ("_context_no_delimit_reasoning_first", "_prompts_0shot_two_image_edit_rule")
    scales = {
        "_prompts_0shot_tie_rule_SC": "from 0 to 10: <instruction>",
        "_prompts_0shot_rule_PQ": "0 to 10",
    }
    texts = {**{name: f"TEXT {name}" for name in names}, **scales}
    module.write_text("\n".join(f"{name} = {text!r}" for name, text in texts.items()))
    (tmp_path / "script.json").write_text(json.dumps([answer(25, 25)] * 2))
    chat = f"scripted:{tmp_path / 'script.json'}"
    scorer: Any = open_scorer(f"editscore[prompts={tmp_path}]:{chat}")
    assert scorer.score(BEFORE, AFTER, "a boat").overall == 10
    semantics, quality = (str(request.messages[0].content[-1]) for request in scorer.chat.requests)
    assert semantics == "\n".join([*(f"TEXT {name}" for name in names), "from 0 to 25: a boat"])
    assert quality == f"TEXT {names[0]}\n0 to 25"
    assert scorer.identity != open_scorer(f"editscore:{chat}").identity
    module.write_text(module.read_text().replace("<instruction>", "the instruction"))
    with pytest.raises(SettingsError, match="slot <instruction>"):
        open_scorer(f"editscore[prompts={tmp_path}]:{chat}")
    module.write_text("")
    with pytest.raises(SettingsError, match="does not define"):
        open_scorer(f"editscore[prompts={tmp_path}]:{chat}")


def rated(*scores: str, parts: tuple[int, ...] = (0, 1, 2, 3), before: str = "", after: str = "") -> str:
    names = ("Text Faithfulness", "Image Faithfulness", "Physical and Visual Quality", "Text Rendering")
    body = "\n".join(
        f"{number}. {names[part]}:\n## Score: {score}\n## Justification: 2 of 3"
        for number, (part, score) in enumerate(zip(parts, scores, strict=True), 1)
    )
    return f"{before}# Detailed Judgement\n{body}\n# Summary: {after}"


def test_rational_rewards_maps_1_to_4_and_takes_the_lowest_aspect() -> None:
    chat = ScriptedChat([rated("4", "2.5", "3.1", "N/A"), rated("4", "4", "4", "[1.0]")])
    scorer = RationalRewards(chat)
    score = scorer.score(BEFORE, AFTER, "a boat")
    assert (score.semantics, score.quality) == (5, pytest.approx(7))
    assert scorer.score(BEFORE, AFTER, "a sign") == Score(semantics=0, quality=10)
    content = chat.requests[0].messages[0].content
    assert [part for part in content if isinstance(part, Picture)] == [BEFORE, AFTER]
    assert "User Instruction: a boat" in str(content[0])


def test_rational_rewards_is_asked_about_one_image_without_a_source() -> None:
    chat = ScriptedChat([rated("4", "2.5", "N/A", parts=(0, 2, 3))])
    score = RationalRewards(chat).score(None, AFTER, "a boat at the <image> of a {request}")
    assert score == Score(semantics=10, quality=5)
    content = chat.requests[0].messages[0].content
    assert [part for part in content if isinstance(part, Picture)] == [AFTER]
    assert "a boat at the <image> of a {request}" in "".join(map(str, content))


def test_headings_outside_the_judgement_do_not_count() -> None:
    text = rated(
        "4", "4", "4", "N/A", before="1. Text Faithfulness matters.\n", after="1. Text Faithfulness: 2"
    )
    assert read_rational(text, True)["Text Faithfulness"] == 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        rated("4", "4", "4", "N/A").replace("2. Image Faithfulness", "Image"),
        rated("4", "N/A", "4", "N/A"),
        rated("5", "4", "4", "N/A"),
        rated("0.5", "4", "4", "N/A"),
        rated("10", "4", "4", "N/A"),
        rated("4", "4", "4\n## Score: 2", "N/A"),
        rated("4", "4", "good", "N/A"),
    ],
)
def test_incomplete_judgements_are_errors(text: str) -> None:
    with pytest.raises(AnswerError):
        read_rational(text, True)
    with pytest.raises(ScorerError, match="cannot be read"):
        RationalRewards(ScriptedChat([text, text])).score(BEFORE, AFTER, "a boat")

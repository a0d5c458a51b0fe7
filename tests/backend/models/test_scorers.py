"""The judge: each score is the lower number of its pair, and unreadable scores are errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker import AnswerError, Picture, Reply, Score, ScorerError, SettingsError
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.models.judge import ChatJudge, read_scores
from interleave_thinker.backend.models.scorers import REGISTRY, Scorer, open_scorer
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.wording import read_prompt

BEFORE, AFTER = (Picture(Image.new("RGB", (8, 6), (shade, 0, 0))) for shade in (10, 20))


def test_each_score_is_the_lower_of_its_pair() -> None:
    chat = ScriptedChat(["<think>[1, 1]?</think><answer>[8, 6.5]</answer>", "<answer>[9, 10]</answer>"])
    score = ChatJudge(chat).score(BEFORE, AFTER, "add a {instruction} boat")
    assert score == Score(semantics=6.5, quality=9)
    semantics, quality = (request.messages[0].content for request in chat.requests)
    assert semantics[:2] == (BEFORE, AFTER)
    assert "add a {instruction} boat" in str(semantics[2])
    assert quality[:1] == (AFTER,) and len(quality) == 2


@pytest.mark.parametrize(
    "text",
    [
        "<answer>[8, 7]</answer>",
        "[8.0, 7.0]",
        "<answer>8 7</answer>",
        '{"score": [8, 7], "reasoning": "good"}',
        "Scores: (8/10, 7/10).",
        "<think>first [1, 2], then [3, 4]</think> [8, 7]",
        "[8, 7] and once more [8, 7]",
    ],
)
def test_pairs_are_read_in_many_formats(text: str) -> None:
    assert read_scores(text) == (8, 7)


@pytest.mark.parametrize(
    "text", ["", "8", "[8, 7, 6]", "[-1, 5]", "[11, 5]", "[8, 7] or [7, 8]", "<think>[8, 7]"]
)
def test_other_replies_are_rejected(text: str) -> None:
    with pytest.raises(AnswerError):
        read_scores(text)


def test_an_unreadable_score_is_requested_again_and_then_raises() -> None:
    thought = Reply(text="[8, 7]", thinking=True)
    chat = ScriptedChat([thought, Reply(text="</think>[6, 7]", thinking=True), "[9, 9]"])
    assert ChatJudge(chat).score(None, AFTER, "a boat") == Score(semantics=6, quality=9)
    assert chat.requests[0].messages[0].content[0] == Picture.white((8, 6)), "no source image"
    assert [request.settings.temperature > 0 for request in chat.requests] == [False, True, False]
    with pytest.raises(ScorerError, match="very good"):
        ChatJudge(ScriptedChat(["good", "very good", "[9, 9]"])).score(BEFORE, AFTER, "a boat")


def test_judge_opens_with_any_chat_backend(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(["[8, 7]", "[9, 9]"]))
    judge = open_scorer(f"judge:scripted:{tmp_path / 'script.json'}")
    assert isinstance(judge, Scorer)
    assert "|prompts=2:e75417460f3b0816|{" in judge.identity, "stored scores refer to the prompts"
    assert judge.score(None, AFTER, "a boat") == Score(semantics=7, quality=9)


def test_the_prompts_are_filled_once() -> None:
    chat = ScriptedChat(["good", "[8, 7]", "[9, 9]"])
    score = ChatJudge(chat).score(BEFORE, AFTER, "add {instruction} and {reason}")
    assert score == Score(semantics=7, quality=9)
    first, retry, quality = (str(request.messages[-1].content[-1]) for request in chat.requests)
    assert "add {instruction} and {reason}" in first and "0 to 10" in first
    assert "The reply contains no pair of scores. In: 'good'." in retry
    for prompt in (first, retry, quality):
        assert "<answer>[" in prompt


def test_options_in_the_name_reach_the_chat_backend(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'device'"):
        open_scorer(f"judge[device=cpu, download=false]:scripted:{tmp_path}")
    for given in ("device", "device=", "device=a,device=b"):
        with pytest.raises(SettingsError, match=r"NAME\[OPTION=VALUE"):
            open_scorer(f"judge[{given}]:scripted:x")


# The contract of scorers


PROMPTS = {
    "before": "a sea page with a red boat at the middle",
    "right": "a sea page with a red boat at the middle and a yellow sun at the top left",
}
INSTRUCTION = "add a yellow sun at the top left"


def shown(name: str) -> Picture:
    found = read_prompt(PROMPTS[name])
    assert found is not None
    return draw(found[0].scene)  # pyright: ignore[reportAttributeAccessIssue]


def scripted_judge(folder: Path) -> str:
    script = folder / "judge.json"
    script.write_text(json.dumps(["<answer>[9, 8]</answer>", "<answer>[9, 9]</answer>"] * 4))
    return f"judge:scripted:{script}"


FACTORIES: dict[str, Callable[[Path], str]] = {
    "tinyworld": lambda folder: "tinyworld",
    "judge": scripted_judge,
}
"""Functions that return a scorer's spec."""


def test_every_registered_scorer_is_tested() -> None:
    assert FACTORIES.keys() == REGISTRY.keys()


@pytest.mark.parametrize("name", FACTORIES)
def test_scores_are_repeatable_and_images_unchanged(name: str, tmp_path: Path) -> None:
    scorer = open_scorer(FACTORIES[name](tmp_path))
    assert isinstance(scorer, Scorer)
    before, after = shown("before"), shown("right")
    digests = before.digest, after.digest
    first, second = (scorer.score(before, after, INSTRUCTION) for _ in range(2))
    assert first == second
    assert digests == tuple(Picture(one.image).digest for one in (before, after))
    assert scorer.identity == open_scorer(FACTORIES[name](tmp_path)).identity
    assert scorer.score(None, after, PROMPTS["right"]).semantics > 5, "generated from text"


def test_unreadable_scores_raise_an_error(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["fine"] * 4))
    for spec, instruction in (("tinyworld", "make it nicer"), (f"judge:scripted:{script}", INSTRUCTION)):
        with pytest.raises(ScorerError):
            open_scorer(spec).score(shown("before"), shown("right"), instruction)
    with pytest.raises(SettingsError):
        open_scorer("none-such")

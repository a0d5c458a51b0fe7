"""Constrained replies: all can be parsed, and replies that already have the right format are unchanged."""

from __future__ import annotations

import importlib.util
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from support import tiny_checkpoint
from support.tiny_checkpoint import PLAIN, WATCH, question

from interleave_thinker.backend.core.answers.grammar import GrammarName, answer_grammar
from interleave_thinker.backend.core.answers.long_plan import read_outline
from interleave_thinker.backend.core.answers.reading import (
    find_plan,
    read_plan,
    read_verdict,
    write_plan,
    write_verdict,
)
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Plan, Request, Step, Verdict
from interleave_thinker.backend.models.chat import Reply, ReplySettings, open_chat
from interleave_thinker.backend.models.chat import grammars as grammar
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.story.agents.asking import ConstrainedDecoding
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.agents.planner import Planner
from interleave_thinker.backend.story.agents.text_writers import read_cast_answer

pytest.importorskip("llguidance")

VERDICTS = [range(16), pytest.param(range(16, 150), marks=pytest.mark.stress)]
PLANS = [range(6), pytest.param(range(6, 50), marks=pytest.mark.stress)]
"""Seeds of the random replies."""
HOT = ReplySettings(max_tokens=110, temperature=1.5)
QUOTED = "<answer>{'previous_step_success': True, 'refine_prompt': 'a \\'light\\' \"page\"'}</answer>"
VERDICT_FIRST = (
    '<answer>{"previous_step_success": false, "refine_prompt": "x"}</answer>\n<think>too dark</think>'
)


@pytest.fixture(scope="module")
def untaught(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Random weights: without a grammar its replies are noise."""
    folder = tiny_checkpoint.build_checkpoint(tmp_path_factory.mktemp("untaught") / "tiny")
    return open_chat(f"transformers:{folder}", device="cpu")


@pytest.mark.parametrize("seeds", VERDICTS, ids=["16", "others of 150"])
def test_every_constrained_verdict_of_a_random_model_is_valid(untaught: Any, seeds: range) -> None:
    seen = set()
    for seed in seeds:
        told = {"grammar": "verdict", "seed": seed, "watch_verdict": seed % 2 == 0}
        reply = untaught.reply(question(255, seed), HOT.model_copy(update=told))
        verdict = read_verdict(reply.text)
        assert reply.finish == "end" or (reply.finish == "verdict" and verdict.success), reply
        seen.add((verdict.success, reply.finish))
    assert seen >= {(True, "end"), (True, "verdict"), (False, "end")}


@pytest.mark.parametrize("seeds", PLANS, ids=["6", "others of 50"])
def test_every_constrained_plan_of_a_random_model_is_valid(untaught: Any, seeds: range) -> None:
    for seed in seeds:
        told = {"grammar": "plan", "seed": seed, "max_tokens": 330}
        reply = untaught.reply(question(text="plan"), HOT.model_copy(update=told))
        assert read_plan(reply.text).steps
        assert reply.finish == "end"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.taught_checkpoint(tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("settings", [WATCH, PLAIN])
def test_replies_in_the_form_stay_as_they_are(checkpoint: Path, settings: ReplySettings) -> None:
    """P(success) is unchanged too, since it is read before the mask; a watched reply ends at true."""
    chat = local.open(str(checkpoint), device="cpu", share=False)
    for grey in (240, 20):
        free = chat.reply(question(grey), settings)
        with counting() as counts:
            held = chat.reply(question(grey), settings.model_copy(update={"grammar": "verdict"}))
        stops = settings.watch_verdict and grey > 128
        assert held.finish == ("verdict" if stops else "end")
        assert held.text == (free.text.partition(" true,")[0] + " true," if stops else free.text)
        assert (held.probability or 0) == pytest.approx(free.probability or 0, rel=1e-4)
        assert (held.probability is None) == (free.probability is None)
        assert counts.tokens_held == held.tokens and (held.tokens < free.tokens) == stops


@pytest.mark.parametrize("role", ["planner", "critic"])
def test_the_shipped_agents_answer_as_they_do_without(role: str) -> None:
    chat = open_chat(f"tinyworld:{role}")
    page = Picture.white((96, 96))
    for number, words in enumerate(("a red sun top left", "a blue boat and then a white moon at the top")):
        if role == "planner":
            free, held = (
                Planner(chat, constrained_decoding=hold).plan(Request(text=words))
                for hold in ("never", "always")
            )
        else:
            after = tiny_checkpoint.page(100 * number, (96, 96))
            free, held = (
                Critic(chat, constrained_decoding=hold).judge(page, after, words, words)
                for hold in ("never", "always")
            )
        if role == "critic":
            assert held.probability == pytest.approx(free.probability, rel=1e-4)
            held = held.model_copy(update={"probability": free.probability})
        assert held == free


def test_the_grammar_accepts_written_replies_and_only_readable_ones(untaught: Any) -> None:
    plan = Plan(
        steps=(Step(number=4, name='a "b"', prompt="x\n<think>"), Step(number=5, auxiliary_text="he's")),
        reasoning="a < b, {'no': 'object'}",
    )
    for text in (write_verdict(Verdict(success=False, refined_prompt="y")), QUOTED, VERDICT_FIRST):
        assert passes(untaught, "verdict", text), text
        read_verdict(text)
    good = write_plan(plan)
    assert passes(untaught, "plan", good)
    for bad in (
        good.replace('"step_number": 5', '"step_number": 4'),
        good.replace("he's", "None"),
        good.replace("he's", " "),
        good.replace("he's", "}, {'step_number': 6"),
        good.replace("he's", "</answer>"),
        good.replace("null", "None"),
        good[:-12],
    ):
        assert bad != good and not passes(untaught, "plan", bad), bad


def test_a_cast_is_allowed_in_both_styles(untaught: Any) -> None:
    member = {"name": "Mia", "kind": "character", "traits": ["red coat", "tall"]}
    value = {
        "cast": [member, member | {"traits": []}],
        "steps": [{"step_number": 12, "cast": ["Mia"], "facts": []}],
    }
    for body in (json.dumps(value), str(value), json.dumps(value | {"cast": []})):
        good = f"<think>One.</think>\n<answer>{body}</answer>"
        assert passes(untaught, "cast", good), good
        assert read_cast_answer(good).steps[0].cast == ["Mia"]
        for bad in (
            good.replace("12", "0"),
            good.replace("character", "girl"),
            good.replace("facts", "fact"),
        ):
            assert bad == good or not passes(untaught, "cast", bad), bad


def passes(chat: Any, name: GrammarName, text: str) -> bool:
    """Return whether the grammar accepts the whole text and may end there."""
    from llguidance import LLMatcher

    matcher = LLMatcher(chat.base.grammar_tokens(chat._ends).tokenizer, answer_grammar(name), log_level=0)
    ids = chat.base.processor.tokenizer.encode(text, add_special_tokens=False)
    return matcher.consume_tokens(ids) and matcher.is_accepting()


class Muddled:
    """Returns nonsense first; records its settings."""

    identity, prompt_set = "muddled", None

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def reply(self, messages: Any, settings: ReplySettings, on_token: Any = None) -> Reply:
        self.asked.append(settings.grammar)
        return Reply(text="?" if len(self.asked) == 1 else tiny_checkpoint.REFUSED)


@pytest.mark.parametrize(
    ("hold", "asked"),
    [("never", [None, None]), ("retry", [None, "verdict"]), ("always", ["verdict", "verdict"])],
)
def test_by_default_only_the_retry_is_constrained(hold: ConstrainedDecoding, asked: list[str | None]) -> None:
    chat = Muddled()
    critic = Critic(chat, constrained_decoding=hold)
    page = Picture.white((8, 8))
    assert critic.judge(None, page, "a", "a").success is False
    assert chat.asked == asked
    assert ("grammar" in critic.identity) == (hold == "always")


def test_without_the_library_a_warning_is_logged(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chat = open_chat(f"transformers:{checkpoint}", device="cpu")
    free = chat.reply(question(240), PLAIN)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "llguidance" else find(name, *rest)
    )
    monkeypatch.setattr(grammar, "_warned", False)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert chat.reply(question(240), PLAIN.model_copy(update={"grammar": "verdict"})) == free
    assert caplog.text.count("pip install llguidance") == 1


def test_every_constrained_outline_and_part_of_a_random_model_is_valid(untaught: Any) -> None:
    for seed in range(6):
        for name, read in (("outline", read_outline), ("part", find_plan)):
            told = {"grammar": name, "seed": seed, "max_tokens": 330}
            reply = untaught.reply(question(text="plan"), HOT.model_copy(update=told))
            assert read(reply.text) and reply.finish == "end"


def test_the_grammars_of_parts_accept_the_requested_steps(untaught: Any) -> None:
    assert passes(untaught, "outline", '<answer>{"outline": ["1. a", "2. b"], "always": "ink"}</answer>')
    steps = write_plan(Plan(steps=(Step(number=11, prompt="x"), Step(number=12, auxiliary_text="y"))))
    assert passes(untaught, "part", steps.replace("]}</answer>", '], "state": "night"}</answer>'))
    assert not passes(untaught, "part", steps)

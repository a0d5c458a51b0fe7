"""Constrained replies: all can be parsed, and replies that already have the right format are unchanged.

llguidance also reads the forms for servers, so a model with random weights writes what a constrained server
could write.
"""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
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
from interleave_thinker.backend.core.types import Plan, Step, Verdict
from interleave_thinker.backend.models.chat import ReplySettings, grammars, open_chat
from interleave_thinker.backend.models.chat.grammars import answer_gbnf, answer_schema
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.story.agents.text_writers import read_cast_answer

pytest.importorskip("llguidance")
HOT = ReplySettings(max_tokens=330, temperature=1.5)
READERS: dict[GrammarName, Callable[[str], Any]] = {
    "plan": read_plan,
    "verdict": read_verdict,
    "outline": read_outline,
    "part": find_plan,
    "cast": read_cast_answer,
}
QUOTED = "<answer>{'previous_step_success': True, 'refine_prompt': 'a \\'light\\' \"page\"'}</answer>"
VERDICT_FIRST = (
    '<answer>{"previous_step_success": false, "refine_prompt": "x"}</answer>\n<think>too dark</think>'
)
STEP = {"step_number": 1, "step_name": None, "instruction": None, "prompt": "a boat", "auxiliary_text": None}
PLAN = {"reasoning": "One step.", "execution_plan": [STEP]}
MEMBER = {"name": "Mia", "kind": "character", "traits": ["red coat"]}
CAST = {
    "reasoning": "One.",
    "cast": [MEMBER, MEMBER | {"traits": []}],
    "steps": [{"step_number": 12, "cast": ["Mia"], "facts": []}],
}


def gbnf(name: GrammarName, thinking: bool = False) -> str:
    from llguidance.gbnf_to_lark import any_to_lark

    return any_to_lark(answer_gbnf(name, thinking))


def schema(name: GrammarName, thinking: bool = False) -> str:
    from llguidance import LLMatcher

    # Random weights would write hundreds of blanks between keys.
    return LLMatcher.grammar_from_json_schema(answer_schema(name), defaults={"whitespace_flexible": False})


def passes(chat: Any, form: str, text: str) -> bool:
    """Return whether a grammar accepts the whole text and may end there."""
    from llguidance import LLMatcher

    matcher = LLMatcher(chat.base.grammar_tokens(chat._ends).tokenizer, form, log_level=0)
    ids = chat.base.processor.tokenizer.encode(text, add_special_tokens=False)
    return matcher.consume_tokens(ids) and matcher.is_accepting()


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 50), marks=pytest.mark.stress)], ids=len)
@pytest.mark.parametrize("form", [answer_grammar, gbnf], ids=["here", "llama.cpp"])
@pytest.mark.parametrize("name", READERS)
def test_every_reply_that_a_grammar_allows_is_read(
    untaught: Any, monkeypatch: pytest.MonkeyPatch, name: GrammarName, form: Any, seeds: range
) -> None:
    monkeypatch.setattr(grammars, "answer_grammar", form)
    for seed in seeds:
        reply = untaught.reply(question(text="plan"), HOT.model_copy(update={"grammar": name, "seed": seed}))
        assert reply.finish == "end" and READERS[name](reply.text), reply.text


@pytest.mark.parametrize("form", [answer_grammar, schema], ids=["here", "a server's schema"])
def test_constrained_verdicts_are_valid(untaught: Any, monkeypatch: pytest.MonkeyPatch, form: Any) -> None:
    """A schema does not limit the length of its texts, so some replies do not end."""
    monkeypatch.setattr(grammars, "answer_grammar", form)
    seen = set()
    for seed in range(12):
        told = {"grammar": "verdict", "seed": seed, "watch_verdict": seed % 2 == 0, "max_tokens": 110}
        reply = untaught.reply(question(255, seed), HOT.model_copy(update=told))
        if reply.finish == "length":
            assert form is schema
            continue
        success = read_verdict(reply.text).success
        assert reply.finish == "end" or success, reply
        seen.add((success, reply.finish))
    assert (True, "verdict") in seen and (form is schema or (False, "end") in seen)


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
        assert counts.tokens_held == held.tokens and (held.tokens < free.tokens) == stops


@pytest.mark.parametrize("form", [answer_grammar, gbnf], ids=["here", "llama.cpp"])
@pytest.mark.parametrize("thinking", [False, True])
def test_a_grammar_allows_reasoning_and_no_placeholders(untaught: Any, form: Any, thinking: bool) -> None:
    steps = (Step(number=4, name="one", prompt='A boat, "Mia"'), Step(number=5, auxiliary_text="The end."))
    held, good = form("plan", thinking), write_plan(Plan(reasoning="Two steps: 3 > 2.", steps=steps))
    good = good.removeprefix("<think>") if thinking else good
    assert passes(untaught, held, good), good
    for bad in (
        good.replace('"The end."', '"None"'),
        good.replace('"step_number": 5', '"step_number": 4'),
        good.replace("The end.", "The </answer>"),
        good.replace("The end.", "}, {'step_number': 6"),
        good.replace('"The end."', "null"),
        good[:-12],
    ):
        assert bad != good and not passes(untaught, held, bad), bad
    assert passes(untaught, gbnf("plan", thinking), good.replace("A boat", "... boat")) is False


def test_the_grammar_here_accepts_other_styles_of_written_replies(untaught: Any) -> None:
    for text in (write_verdict(Verdict(success=False, refined_prompt="y")), QUOTED, VERDICT_FIRST):
        assert passes(untaught, answer_grammar("verdict"), text), text
        read_verdict(text)
    value = {name: part for name, part in CAST.items() if name != "reasoning"}
    for body in (json.dumps(value), str(value), json.dumps(value | {"cast": []})):
        good = f"<think>One.</think>\n<answer>{body}</answer>"
        assert passes(untaught, answer_grammar("cast"), good), good
        for bad in (
            good.replace("12", "0"),
            good.replace("character", "girl"),
            good.replace("facts", "fact"),
        ):
            assert bad == good or not passes(untaught, answer_grammar("cast"), bad), bad
    steps = write_plan(Plan(steps=(Step(number=11, prompt="x"), Step(number=12, auxiliary_text="y"))))
    part = answer_grammar("part")
    assert passes(untaught, part, steps.replace("]}</answer>", '], "state": "night"}</answer>'))
    assert not passes(untaught, part, steps)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("plan", PLAN, PLAN | {"execution_plan": [STEP | {"prompt": None}]}),
        ("part", PLAN | {"state": "Mia sits."}, PLAN),
        ("outline", {"reasoning": "", "outline": ["a"], "always": ""}, {"reasoning": "", "outline": [5]}),
        ("cast", CAST, CAST | {"cast": [MEMBER | {"kind": "animal"}]}),
        ("verdict", {"reasoning": "", "previous_step_success": True, "refine_prompt": ""}, {"reasoning": ""}),
    ],
)
def test_whole_schemas(untaught: Any, name: GrammarName, good: dict[str, Any], bad: dict[str, Any]) -> None:
    assert next(iter(answer_schema(name)["properties"])) == "reasoning"
    accepted = [passes(untaught, schema(name), json.dumps(one, separators=(",", ":"))) for one in (good, bad)]
    assert accepted == [True, False]


def test_without_the_library_a_warning_is_logged(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chat = open_chat(f"transformers:{checkpoint}", device="cpu")
    free = chat.reply(question(240), PLAIN)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "llguidance" else find(name, *rest)
    )
    monkeypatch.setattr(grammars, "_warned", False)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert chat.reply(question(240), PLAIN.model_copy(update={"grammar": "verdict"})) == free
    assert caplog.text.count("pip install llguidance") == 1

"""Grammars and schemas for servers: every reply that they allow can be parsed, and it is not a placeholder.

llguidance reads both forms, so a model with random weights writes what a constrained server could write.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import tiny_checkpoint
from support.tiny_checkpoint import question

from interleave_thinker.backend.core.answers.grammar import GrammarName
from interleave_thinker.backend.core.answers.long_plan import read_outline
from interleave_thinker.backend.core.answers.reading import read_plan, read_verdict, write_plan
from interleave_thinker.backend.core.types import Plan, Step
from interleave_thinker.backend.models.chat import ReplySettings, grammars, open_chat
from interleave_thinker.backend.models.chat.grammars import answer_gbnf, answer_schema
from interleave_thinker.backend.story.agents.text_writers import read_cast_answer

pytest.importorskip("llguidance")
HOT = ReplySettings(max_tokens=400, temperature=1.5)
READERS: dict[GrammarName, Any] = {
    "plan": read_plan,
    "verdict": read_verdict,
    "outline": read_outline,
    # Its numbers are not known beforehand.
    "part": lambda text: (read_plan(text), json.loads(text.partition("<answer>")[2][:-9])["state"]),
    "cast": read_cast_answer,
}
STEPS = (Step(number=4, name="one", prompt='A red boat, "Mia"'), Step(number=5, auxiliary_text="The end."))
GOOD = write_plan(Plan(reasoning="Two steps: 3 > 2.", steps=STEPS))

STEP = {"step_number": 1, "step_name": None, "instruction": None, "prompt": "a boat", "auxiliary_text": None}
PLAN = {"reasoning": "One step.", "execution_plan": [STEP]}
MEMBER = {"name": "Mia", "kind": "character", "traits": ["red coat"]}
CAST = {
    "reasoning": "One.",
    "cast": [MEMBER],
    "steps": [{"step_number": 12, "cast": ["Mia"], "facts": []}, {"step_number": 2, "cast": [], "facts": []}],
}


@pytest.fixture(scope="module")
def untaught(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tiny_checkpoint.build_checkpoint(tmp_path_factory.mktemp("untaught") / "tiny")
    return open_chat(f"transformers:{folder}", device="cpu")


def lark(name: GrammarName, thinking: bool = False) -> str:
    from llguidance.gbnf_to_lark import any_to_lark

    return any_to_lark(answer_gbnf(name, thinking))


def passes(chat: Any, form: str, text: str) -> bool:
    """Return whether a grammar accepts the whole text and may end there."""
    from llguidance import LLMatcher

    matcher = LLMatcher(chat.base.grammar_tokens(chat._ends).tokenizer, form, log_level=0)
    ids = chat.base.processor.tokenizer.encode(text, add_special_tokens=False)
    return matcher.consume_tokens(ids) and matcher.is_accepting()


def compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def schema(name: GrammarName, thinking: bool = False) -> str:
    from llguidance import LLMatcher

    # Random weights would write hundreds of blanks between keys.
    return LLMatcher.grammar_from_json_schema(answer_schema(name), defaults={"whitespace_flexible": False})


@pytest.mark.parametrize("name", ["plan", "verdict", "outline", "part", "cast"])
def test_every_reply_that_the_grammar_allows_is_read(
    untaught: Any, monkeypatch: pytest.MonkeyPatch, name: GrammarName
) -> None:
    monkeypatch.setattr(grammars, "answer_grammar", lark)
    for seed in range(3):
        reply = untaught.reply(question(text="plan"), HOT.model_copy(update={"grammar": name, "seed": seed}))
        assert reply.finish == "end" and READERS[name](reply.text), reply.text


def test_every_verdict_that_the_schema_allows_is_read(untaught: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema cannot number the steps of a plan, so only verdicts are certain."""
    monkeypatch.setattr(grammars, "answer_grammar", schema)
    ended = 0
    for seed in range(8):
        held = HOT.model_copy(update={"grammar": "verdict", "seed": seed, "watch_verdict": seed % 2 == 0})
        reply = untaught.reply(question(255, seed), held)
        if reply.finish != "length":  # nothing limits its texts
            assert read_verdict(reply.text).success in (
                (True,) if reply.finish == "verdict" else (True, False)
            )
            ended += 1
    assert ended > 3


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("plan", PLAN, PLAN | {"execution_plan": [STEP | {"prompt": None}]}),
        ("plan", PLAN, {"execution_plan": [STEP]}),
        ("part", PLAN | {"state": "Mia sits."}, PLAN),
        (
            "outline",
            {"reasoning": "", "outline": ["a", "b"], "always": ""},
            {"reasoning": "", "outline": [5]},
        ),
        ("cast", CAST, CAST | {"cast": [MEMBER | {"kind": "animal"}]}),
        ("verdict", {"reasoning": "", "previous_step_success": True, "refine_prompt": ""}, {"reasoning": ""}),
    ],
)
def test_the_schema_has_the_reasoning_first_and_all_keys(
    untaught: Any, name: GrammarName, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    assert next(iter(answer_schema(name)["properties"])) == "reasoning"
    assert passes(untaught, schema(name), compact(good))
    assert not passes(untaught, schema(name), compact(bad))


@pytest.mark.parametrize("thinking", [False, True])
def test_the_grammar_allows_free_reasoning_and_no_placeholders(untaught: Any, thinking: bool) -> None:
    held = lark("plan", thinking)
    good = GOOD.removeprefix("<think>") if thinking else GOOD
    assert passes(untaught, held, good), good
    for bad in (
        good.replace("A red boat", "... red boat"),
        good.replace('"The end."', '"None"'),
        good.replace('"step_number": 5', '"step_number": 7'),
        good.replace("A red boat", "A red boat}, {"),
        good.replace("A red boat", "A red </answer>"),
        good.replace('"The end."', "null"),
        good[:-12],
    ):
        assert bad != good and not passes(untaught, held, bad), bad

"""Optional fields of a request to a chat server: the schema of the answer, and token counts."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from support.chat_server import ChatServer, chat_server

from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.errors import ChatError
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Request
from interleave_thinker.backend.models.chat import Message, ReplySettings, open_chat
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.agents.planner import Planner

ASK = [Message(role="user", content=("A boat?",))]
HELD = ReplySettings(grammar="verdict", watch_verdict=True)
VERDICT = (
    '{"reasoning": "Its hat is red, {not} blue.", "previous_step_success": false, '
    '"refine_prompt": "a blue hat"}'
)
TAGGED = '<think>x</think><answer>{"previous_step_success": false, "refine_prompt": "a blue hat"}</answer>'
STEP = {"step_number": 1, "step_name": None, "instruction": None, "prompt": "a boat", "auxiliary_text": None}
PLAN = json.dumps({"reasoning": "One step.", "execution_plan": [STEP]})
PAGE = Picture.white((8, 8))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(VERDICT) as running:
        yield running


@pytest.fixture
def chat(server: ChatServer) -> Any:
    return open_chat(f"openai:{server.spec}")


def test_a_constrained_reply_is_json_with_reasoning_and_probability(server: ChatServer, chat: Any) -> None:
    reply = chat.reply(ASK, HELD)
    sent = server.requests[0]["response_format"]
    assert sent["type"] == "json_schema" and sent["json_schema"]["strict"] is True
    names = list(sent["json_schema"]["schema"]["properties"])
    assert names == ["reasoning", "previous_step_success", "refine_prompt"], "it reasons before it answers"
    verdict = read_verdict(reply.whole)
    assert (verdict.success, verdict.refined_prompt) == (False, "a blue hat")
    assert verdict.reasoning == "Its hat is red, {not} blue."
    assert reply.probability == pytest.approx(0.9, abs=1e-6) and reply.finish == "end"
    chat.reply(ASK, ReplySettings())
    assert "response_format" not in server.requests[1]


def test_a_plan_in_json_keeps_its_reasoning(server: ChatServer, chat: Any) -> None:
    server.text = PLAN
    plan = Planner(chat, constrained_decoding="always").plan(Request(text="a boat"))
    assert (plan.reasoning, plan.steps[0].prompt) == ("One step.", "a boat")
    assert server.requests[0]["response_format"]["json_schema"]["name"] == "plan"


REFUSALS = [
    (400, b"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    (422, b"Unexpected fields in the request: {'response_format'}"),
    (400, b"Failed to parse grammar"),
]


@pytest.mark.parametrize(("status", "said"), REFUSALS)
def test_a_server_that_rejects_the_schema_is_asked_once(
    server: ChatServer, chat: Any, status: int, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server.text, server.faults = TAGGED, [(status, said)]
    critic = Critic(chat, constrained_decoding="always")
    assert critic.unused_settings == (), "not known yet"
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert critic.judge(None, PAGE, "a hat", "a hat").refined_prompt == "a blue hat"
    assert ["response_format" in body for body in server.requests] == [True, False, False]
    assert len([one for one in caplog.messages if "does not support constrained replies" in one]) == 1
    assert critic.unused_settings == ("constrained_decoding",)


def test_a_server_that_ignores_the_schema_is_noticed(
    server: ChatServer, chat: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.text = TAGGED
    critic = Critic(chat, constrained_decoding="always")
    for _ in range(2):
        assert critic.judge(None, PAGE, "a hat", "a hat").success is False
    assert ["response_format" in body for body in server.requests] == [True, False]
    assert critic.unused_settings == ("constrained_decoding",)
    assert "does not support constrained replies" in caplog.text


def test_reasoning_before_the_json_is_no_sign_of_an_ignored_schema(server: ChatServer, chat: Any) -> None:
    server.reasoning = ("reasoning_content", "It is red.")
    chat.reply(ASK, HELD)
    assert chat.constrains_replies


def test_another_error_is_not_taken_for_a_rejected_schema(server: ChatServer, chat: Any) -> None:
    server.faults = [(400, b"bad image"), (500, b"schema")] + [(500, b"schema")] * 9
    with pytest.raises(ChatError, match="bad image"):
        chat.reply(ASK, HELD)
    assert len(server.requests) == 1 and chat.constrains_replies


def test_rejected_probabilities_and_counts_are_not_asked_for_again(server: ChatServer, chat: Any) -> None:
    server.faults = [(400, b"logprobs are not supported"), (422, b"extra field stream_options")]
    assert chat.reply(ASK, HELD).text == VERDICT
    chat.reply(ASK, HELD)
    kept = [("logprobs" in body, "stream_options" in body) for body in server.requests]
    assert kept == [(True, True), (False, True), (False, False), (False, False)]
    assert all("response_format" in body for body in server.requests)


def usage_event(**fields: object) -> list[str]:
    text = json.dumps({"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]})
    return [text, json.dumps({"choices": [], **fields}), "[DONE]"]


@pytest.mark.parametrize(
    ("fields", "prompt", "cached"),
    [
        ({"usage": {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 64}}}, 90, 64),
        ({"usage": {"prompt_tokens": 90}, "timings": {"cache_n": 33, "prompt_n": 57}}, 90, 33),
        ({"usage": {"prompt_tokens": 90, "prompt_tokens_details": None}}, 90, None),
        ({"usage": {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": "many"}}}, 90, None),
        ({"usage": {"prompt_tokens": 90, "prompt_tokens_details": [5]}, "timings": 3}, 90, None),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": -4}}}, 9, None),
        ({"usage": {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 0}}}, 90, 0),
        ({"usage": None}, None, None),
    ],
)
def test_cached_tokens_are_counted_and_wrong_counts_are_ignored(
    server: ChatServer, chat: Any, fields: dict[str, object], prompt: int | None, cached: int | None
) -> None:
    server.events = usage_event(**fields)
    with counting() as counts:
        reply = chat.reply(ASK, ReplySettings())
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert (reply.text, reply.question_tokens, reply.cached_tokens) == ("yes", prompt, cached)
    assert (counts.served_prompt_tokens, counts.served_prompt_tokens_cached) == (prompt or 0, cached or 0)

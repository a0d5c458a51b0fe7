"""The chat server client: its requests, its parsing of answers, and that the key is sent nowhere else."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from email.utils import formatdate
from typing import Any

import pytest
from support.chat_server import ChatServer, chat_server

from interleave_thinker import Cancelled, Critic, Picture, Planner
from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.errors import AnswerError, ChatError, ServerError, SettingsError
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.remote.call import (
    MAX_ATTEMPTS,
    MAX_BUSY_ATTEMPTS,
    moment_of,
    retry_after,
    too_late,
)
from interleave_thinker.backend.models.chat import (
    ChatModel,
    Message,
    ReplySettings,
    open_chat,
    streamed_reply,
)

KEY = "sk-very-secret-1234567890"
TRUE = (
    '<think>{"success": false} at first</think>\n<answer>{"previous_step_success": true, '
    '"refine_prompt": "x"}</answer>'
)
FALSE = '<think>hm</think>\n<answer>{"previous_step_success": false, "refine_prompt": "make it red"}</answer>'
VERDICT = '{"reasoning": "It is {not} blue.", "previous_step_success": false, "refine_prompt": "a blue hat"}'
ASK = [Message(role="user", content=(Picture.white((8, 8)), "first", Picture.white((4, 4)), "second"))]
PLAIN, WATCH = ReplySettings(), ReplySettings(watch_verdict=True)
HELD = ReplySettings(grammar="verdict", watch_verdict=True)
PAGE = Picture.white((8, 8))
TOO_LONG = b"This model's maximum context length is 8192 tokens. However, you requested 17000 tokens"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("INTERLEAVE_API_KEY", KEY)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with chat_server(FALSE) as running:
        yield running


@pytest.fixture
def chat(server: ChatServer) -> ChatModel:
    return open_chat(f"openai:{server.spec}")


def test_the_request_contains_model_ordered_images_and_settings(server: ChatServer, chat: ChatModel) -> None:
    settings = ReplySettings(max_tokens=77, temperature=0.5, seed=3, top_p=0.5, top_k=7)
    assert chat.reply(ASK, settings).text == FALSE
    chat.reply(ASK, settings.model_copy(update={"temperature": 0.0}))
    body, greedy = server.requests
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == ("tiny", 77, 0.5, 3)
    assert (body["top_p"], body["top_k"]) == (0.5, 7)
    assert not {"top_p", "top_k", "logprobs", "response_format"} & greedy.keys(), "sent only where it is set"
    parts = body["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image_url", "text", "image_url", "text"]
    assert Picture.from_base64(parts[2]["image_url"]["url"]) == Picture.white((4, 4))
    assert server.headers_seen[0]["authorization"] == f"Bearer {KEY}"


def test_the_probability_is_normalized_over_both_words(server: ChatServer, chat: ChatModel) -> None:
    reply = chat.reply(ASK, WATCH)
    assert reply.probability == pytest.approx(0.9, abs=1e-6)
    assert read_verdict(reply.text).refined_prompt == "make it red"
    assert server.requests[0]["top_logprobs"] >= 5
    server.top = {"false": 0.9, "maybe": 0.1}
    assert chat.reply(ASK, WATCH).probability is None, "one of the words is missing"
    server.has_logprobs = False
    reply = chat.reply(ASK, WATCH)
    assert (reply.probability, reply.text) == (None, FALSE)


def test_p_of_yes_is_measured_at_the_first_word(server: ChatServer, chat: ChatModel) -> None:
    asked = ReplySettings(watch_yes_no=True, max_tokens=4)
    server.text, server.top = "Yes", {"Yes": 0.6, " yes": 0.1, "No": 0.2, "Maybe": 0.1}
    reply = chat.reply(ASK, asked)
    assert (reply.text, reply.probability) == ("Yes", pytest.approx(0.7 / 0.9, abs=1e-6))
    server.text = "Yes/No"
    assert chat.reply(ASK, asked).text == "Yes/No", "the first word is not all"


def test_a_true_verdict_is_read_to_its_end(server: ChatServer, chat: ChatModel) -> None:
    """The model may correct itself after its answer."""
    server.text = TRUE
    for server.has_logprobs in (True, False):
        reply = chat.reply(ASK, WATCH)
        assert (reply.finish, reply.text) == ("end", TRUE)
    server.text = f"{TRUE} Wait, that is wrong.\n{FALSE}"
    with pytest.raises(AnswerError):
        read_verdict(chat.reply(ASK, WATCH).whole)


def test_a_server_that_does_not_stream_is_understood(server: ChatServer, chat: ChatModel) -> None:
    server.streams, server.finish = False, "length"
    pieces: list[str] = []
    reply = chat.reply(ASK, WATCH, pieces.append)
    assert (reply.text, reply.finish) == (FALSE, "length")
    assert reply.probability == pytest.approx(0.9, abs=1e-6)
    assert "".join(pieces) == FALSE


@pytest.mark.parametrize(("name", "streams"), [("reasoning_content", True), ("reasoning", False)])
def test_removed_reasoning_is_put_back(server: ChatServer, chat: ChatModel, name: str, streams: bool) -> None:
    server.reasoning, server.streams = (name, "The hat is {'success': true}, missing."), streams
    reply = chat.reply(ASK, WATCH)
    assert reply.text == f"<think>The hat is {{'success': true}}, missing.</think>{FALSE}"
    assert reply.finish == "end", "a verdict in the thinking does not count"


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [
        (400, "bad image " + "x" * 5000, "400: bad image"),
        (401, f"key {KEY} is wrong", r"401.*INTERLEAVE_API_KEY"),
        (400, "Unrecognized request argument supplied: top_k", "does not support top_k"),
        (404, '{"error": {"message": "The model `x` does not exist."}}', "does not exist.*/models lists"),
    ],
)
def test_brief_rejections(server: ChatServer, chat: ChatModel, status: int, said: str, words: str) -> None:
    server.faults = [(status, said.encode())]
    with pytest.raises(ChatError, match=words) as caught:
        chat.reply(ASK, ReplySettings(temperature=0.7, top_k=7))
    assert len(server.requests) == 1 and len(str(caught.value)) < 600
    assert KEY not in str(caught.value) + chat.identity + repr(chat)


@pytest.mark.parametrize(
    "raw",
    [
        "<html>hello</html>",
        "[]",
        '{"choices": []}',
        '{"error": {"message": "no such model"}}',
        '{"choices": [{"message": {"content": 5}}]}',
        '{"choices": [{"message": {"content": [{"type": "image_url"}]}}]}',
        '{"choices": [{"message": {"content": [{"type": "text", "text": 5}]}}]}',
    ],
)
def test_an_invalid_answer_raises(raw: str, server: ChatServer, chat: ChatModel) -> None:
    server.raw = raw.encode()
    with pytest.raises(ChatError):
        chat.reply(ASK, PLAIN)


def test_an_endless_body(server: ChatServer, chat: ChatModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_reply, "MAX_REPLY_BYTES", 1000)
    server.raw = json.dumps({"choices": [{"message": {"content": "x" * 5000}}]}).encode()
    with pytest.raises(ChatError, match="more than 1000 bytes"):
        chat.reply(ASK, PLAIN)


def test_no_server_is_a_clear_error() -> None:
    with pytest.raises(ChatError, match=r"Cannot reach .*127\.0\.0\.1:1/v1"):
        open_chat("openai:m@http://127.0.0.1:1/v1").reply(ASK, PLAIN)


@pytest.mark.parametrize(
    "argument",
    ["model", "model@ftp://x", "m@http://user:secret@host/v1", "m@http://h/v1?key=secret", "m@http://h:x/"],
)
def test_bad_addresses_are_rejected_without_showing_secrets(argument: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_chat(f"openai:{argument}")
    assert "secret" not in str(caught.value)


def test_a_published_model(server: ChatServer, chat: ChatModel, caplog: pytest.LogCaptureFixture) -> None:
    published = open_chat(f"openai:/models/interleavethinker-planner-8b@{server.spec.partition('@')[2]}")
    Planner(published, default_prompt_set())
    Planner(chat)
    assert not caplog.records, "a prompt set was named, or the model is another one"
    Planner(published)
    assert ["prompts import" in one.getMessage() for one in caplog.records] == [True]


def test_a_short_context_gets_a_smaller_token_limit(server: ChatServer, chat: ChatModel) -> None:
    server.faults = [(400, TOO_LONG), (422, TOO_LONG)]
    for limit in (16384, 16384, 600):
        chat.reply(ASK, ReplySettings(max_tokens=limit))
    asked = [body["max_tokens"] for body in server.requests]
    assert asked == [16384, 8192, 4096, 16384, 600], "other questions are not limited"
    server.faults = [(400, b"the prompt exceeds the context size")] * 20
    with pytest.raises(ChatError, match=r"status 400: the prompt exceeds.*longer context"):
        chat.reply(ASK, PLAIN)
    assert [body["max_tokens"] for body in server.requests[5:]] == [4096, 2048, 1024, 512]


# Optional fields


def test_a_constrained_reply_has_reasoning_and_probability(server: ChatServer, chat: ChatModel) -> None:
    server.text, server.reasoning = VERDICT, ("reasoning_content", "It is red.")
    reply = chat.reply(ASK, HELD)
    sent = server.requests[0]["response_format"]
    assert sent["type"] == "json_schema" and sent["json_schema"]["strict"] is True
    names = list(sent["json_schema"]["schema"]["properties"])
    assert names == ["reasoning", "previous_step_success", "refine_prompt"], "it reasons before it answers"
    verdict = read_verdict(reply.whole)
    assert (verdict.success, verdict.refined_prompt) == (False, "a blue hat")
    assert reply.probability == pytest.approx(0.9, abs=1e-6) and reply.finish == "end"
    assert chat.constrains_replies, "reasoning before the JSON is no sign of an ignored schema"


@pytest.mark.parametrize(
    "faults",
    [
        [(400, b"'response_format' is not supported with this model.")],
        [(422, b"Failed to parse grammar")],
        [],
    ],
    ids=["rejected", "another word", "ignored"],
)
def test_a_server_without_schemas_is_asked_for_one_once(
    server: ChatServer, chat: ChatModel, faults: list[tuple[int, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    server.faults = [*faults]
    critic = Critic(chat, constrained_decoding="always")
    assert critic.unused_settings == (), "not known yet"
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert critic.judge(None, PAGE, "a hat", "a hat").refined_prompt == "make it red"
    sent = ["response_format" in body for body in server.requests]
    assert sent == [True, *([False] if faults else []), False]
    assert len([one for one in caplog.messages if "does not support constrained replies" in one]) == 1
    assert critic.unused_settings == ("constrained_decoding",)


def test_only_rejected_fields_are_left_out(server: ChatServer, chat: ChatModel) -> None:
    server.text = VERDICT
    server.faults = [(400, b"logprobs are not supported"), (422, b"extra field stream_options")]
    for _ in range(2):
        assert chat.reply(ASK, HELD).text == VERDICT
    kept = [("logprobs" in body, "stream_options" in body) for body in server.requests]
    assert kept == [(True, True), (False, True), (False, False), (False, False)]
    server.faults = [(400, b"bad image")]
    with pytest.raises(ChatError, match="bad image"):
        chat.reply(ASK, HELD)
    assert all("response_format" in body for body in server.requests)


# Counts and texts


def events(pieces: Sequence[Any], field: str = "content") -> list[str]:
    return [json.dumps({"choices": [{"delta": {field: piece}, "finish_reason": None}]}) for piece in pieces]


END = [json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]}), "[DONE]"]


@pytest.mark.parametrize(
    ("fields", "prompt", "cached"),
    [
        ({"usage": {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 64}}}, 90, 64),
        ({"usage": {"prompt_tokens": 90.0}, "timings": {"cache_n": 33, "prompt_n": 57}}, 90, 33),
        ({"usage": {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": "many"}}}, 90, None),
        ({"usage": {"prompt_tokens": -4, "prompt_tokens_details": [5]}, "timings": 3}, None, None),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}}, 9, 0),
        ({"usage": {"prompt_tokens": True, "completion_tokens": 10**30}}, None, None),
        ({"usage": []}, None, None),
    ],
)
def test_counts_are_read_and_invalid_ones_do_not_lose_the_reply(
    server: ChatServer, chat: ChatModel, fields: dict[str, object], prompt: int | None, cached: int | None
) -> None:
    text = json.dumps({"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]})
    server.events = [text, json.dumps({"choices": [], **fields}), "[DONE]"]
    with counting() as counts:
        reply = chat.reply(ASK, PLAIN)
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert (reply.text, reply.tokens) == ("yes", 1)
    assert (reply.question_tokens, reply.cached_tokens) == (prompt, cached)
    assert (counts.prompt_tokens, counts.cached_tokens) == (prompt or 0, cached or 0)


def test_a_count_of_the_whole_reply_wins(server: ChatServer, chat: ChatModel) -> None:
    server.raw = b'{"choices": [{"message": {"content": "yes"}}], "usage": {"completion_tokens": 12.0}}'
    assert chat.reply(ASK, PLAIN).tokens == 12


def test_content_in_parts_is_joined(server: ChatServer, chat: ChatModel) -> None:
    parts = [{"type": "text", "text": "ye"}, {"type": "text", "text": "s\ud83d\ude00"}]
    server.raw = json.dumps({"choices": [{"message": {"content": parts}}]}).encode()
    assert chat.reply(ASK, PLAIN).text == "yes😀"
    server.raw, shown = None, list[str]()
    server.events = [*events([parts]), *events(["a", "\ud83d"], "reasoning_content"), *events(["b"]), *END]
    reply = chat.reply(ASK, WATCH, shown.append)
    assert reply.text == "".join(shown) == "yes😀<think>a\ufffd</think>b"
    reply.model_dump_json()


# Retries


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between requests take a hundredth of their time."""
    monkeypatch.setattr("interleave_thinker.backend.core.remote.call.FIRST_PAUSE", 0.0025)
    monkeypatch.setattr("interleave_thinker.backend.core.remote.call.MAX_PAUSE", 0.08)


def test_a_busy_server_is_retried_when_it_says(server: ChatServer, chat: ChatModel, quick: None) -> None:
    server.busy_seconds = 0.9
    assert chat.reply(ASK, PLAIN).text == FALSE
    assert server.refused == 1, "retried only after the second that the server named"


def test_a_wait_beyond_the_deadline_fails_at_once(server: ChatServer) -> None:
    server.busy_seconds = 50.0
    with pytest.raises(ServerError, match=r"429: slow down; it is busy for at least 50 s.*deadline"):
        open_chat(f"openai:{server.spec}", deadline=20.0).reply(ASK, PLAIN)
    assert server.refused == 1


def test_a_wait_can_be_cancelled(server: ChatServer, chat: ChatModel) -> None:
    server.busy_seconds = 60.0

    def stop(text: str) -> None:
        if server.refused:
            raise Cancelled("Stopped.")

    with pytest.raises(Cancelled):
        chat.reply(ASK, PLAIN, stop)
    assert server.refused == 1


@pytest.mark.parametrize(("status", "most"), [(503, MAX_BUSY_ATTEMPTS), (500, MAX_ATTEMPTS)])
def test_retries_are_few(server: ChatServer, chat: ChatModel, quick: None, status: int, most: int) -> None:
    server.faults = [(status, b"not now")] * (most - 1)
    assert chat.reply(ASK, PLAIN).text == FALSE
    assert len(server.requests) == most
    server.faults = [(status, b"not now")] * 99
    with pytest.raises(ServerError, match=f"{status}: not now"):
        chat.reply(ASK, PLAIN)
    assert len(server.requests) == 2 * most


@pytest.mark.parametrize(("status", "said"), [(404, b"no"), (501, b"no"), (429, b'"insufficient_quota"')])
def test_no_useless_retry(server: ChatServer, chat: ChatModel, quick: None, status: int, said: bytes) -> None:
    server.faults = [(status, said)] * 9
    with pytest.raises(ServerError, match=str(status)):
        chat.reply(ASK, PLAIN)
    assert len(server.requests) == 1


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after("7") == 7.0 and retry_after("-3") == 0.0
    assert 20.0 < (retry_after(formatdate(time.time() + 30, usegmt=True)) or 0.0) <= 30.0
    assert retry_after(formatdate(time.time() - 30, usegmt=True)) == 0.0
    assert len(str(too_late(ServerError, "Busy.", retry_after("1e308") or 0.0, ""))) < 100
    assert [retry_after(one) for one in (None, "", "soon", "nan", "inf", "1" * 101)] == [None] * 6


def test_a_status_tells_temporary_from_permanent_failures() -> None:
    said = {status: moment_of(status, "") for status in range(400, 1000)}
    assert {status for status, moment in said.items() if moment == "busy"} == {429, 503}
    assert {status for status, moment in said.items() if moment == "late"} == {408, 504}
    assert said[500] == said[520] == "down" and said[501] is said[600] is said[404] is None

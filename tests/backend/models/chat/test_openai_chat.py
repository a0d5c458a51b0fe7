"""The chat server client: its requests, its parsing of answers, and that the key is sent nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.chat_server import ChatServer, chat_server

from interleave_thinker.backend.core.answers.reading import read_verdict
from interleave_thinker.backend.core.errors import AnswerError, Cancelled, ChatError, SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.chat import ChatModel, Message, ReplySettings, open_chat
from interleave_thinker.backend.story.agents.planner import Planner

KEY = "sk-very-secret-1234567890"
TRUE = (
    '<think>{"success": false} at first</think>\n<answer>{"previous_step_success": true, '
    '"refine_prompt": "x"}</answer>'
)
FALSE = '<think>hm</think>\n<answer>{"previous_step_success": false, "refine_prompt": "make it red"}</answer>'
ASK = [Message(role="user", content=(Picture.white((8, 8)), "first", Picture.white((4, 4)), "second"))]
WATCH = ReplySettings(watch_verdict=True)


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
    settings = ReplySettings(max_tokens=77, temperature=0.5, seed=3)
    assert chat.reply(ASK, settings).text == FALSE
    body = server.requests[0]
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == ("tiny", 77, 0.5, 3)
    parts = body["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image_url", "text", "image_url", "text"]
    assert Picture.from_base64(parts[2]["image_url"]["url"]) == Picture.white((4, 4))
    assert "logprobs" not in body
    assert server.headers_seen[0]["authorization"] == f"Bearer {KEY}"


def test_the_probability_is_normalized_over_both_words(server: ChatServer, chat: ChatModel) -> None:
    reply = chat.reply(ASK, WATCH)
    assert reply.probability == pytest.approx(0.9, abs=1e-6)
    assert read_verdict(reply.text).refined_prompt == "make it red"
    assert server.requests[0]["top_logprobs"] >= 5


def test_without_both_words_there_is_no_probability(server: ChatServer, chat: ChatModel) -> None:
    server.top = {"false": 0.9, "maybe": 0.1}
    assert chat.reply(ASK, WATCH).probability is None
    server.has_logprobs = False
    reply = chat.reply(ASK, WATCH)
    assert reply.probability is None
    assert reply.text == FALSE


def test_p_of_yes_is_measured_at_the_first_word(server: ChatServer, chat: ChatModel) -> None:
    server.text, server.top = "Yes", {"Yes": 0.6, " yes": 0.1, "No": 0.2, "Maybe": 0.1}
    reply = chat.reply(ASK, ReplySettings(watch_yes_no=True, max_tokens=4))
    assert reply.probability == pytest.approx(0.7 / 0.9, abs=1e-6)
    assert (reply.text, server.requests[0]["top_logprobs"] >= 5) == ("Yes", True)
    server.text = "Yes/No"
    assert chat.reply(ASK, ReplySettings(watch_yes_no=True)).text == "Yes/No", "the first word is not all"
    server.has_logprobs = False
    assert chat.reply(ASK, ReplySettings(watch_yes_no=True)).probability is None


def test_a_true_verdict_is_read_to_its_end(server: ChatServer, chat: ChatModel) -> None:
    """The model may correct itself after its answer."""
    server.text = TRUE
    for server.has_logprobs in (True, False):
        reply = chat.reply(ASK, WATCH)
        assert (reply.finish, reply.text) == ("end", TRUE)
    server.text = f"{TRUE} Wait, that is wrong.\n{FALSE}"
    with pytest.raises(AnswerError):
        read_verdict(chat.reply(ASK, WATCH).whole)


def test_a_server_that_rejects_logprobs_is_called_without(server: ChatServer, chat: ChatModel) -> None:
    server.faults = [(400, b'{"error": "logprobs are not supported"}')]
    assert chat.reply(ASK, WATCH).text == FALSE
    assert "logprobs" not in server.requests[1]


def test_a_server_that_does_not_stream_is_understood(server: ChatServer, chat: ChatModel) -> None:
    server.streams, server.finish = False, "length"
    pieces: list[str] = []
    reply = chat.reply(ASK, WATCH, pieces.append)
    assert (reply.text, reply.finish) == (FALSE, "length")
    assert reply.probability == pytest.approx(0.9, abs=1e-6)
    assert "".join(pieces) == FALSE


def test_rejected_requests_are_sent_once_and_reported_briefly(server: ChatServer, chat: ChatModel) -> None:
    server.faults = [(400, b"bad image " + b"x" * 5000)]
    with pytest.raises(ChatError, match="400: bad image") as caught:
        chat.reply(ASK, ReplySettings())
    assert len(server.requests) == 1
    assert len(str(caught.value)) < 600


def test_the_key_is_in_no_error_and_no_identity(server: ChatServer, chat: ChatModel) -> None:
    server.faults = [(401, f"key {KEY} is wrong".encode())]
    with pytest.raises(ChatError, match="401") as caught:
        chat.reply(ASK, ReplySettings())
    shown = str(caught.value) + chat.identity + repr(chat)
    assert KEY not in shown
    assert "INTERLEAVE_API_KEY" in str(caught.value)


@pytest.mark.parametrize("name", ["INTERLEAVE_API_KEY", "OPENAI_API_KEY"])
def test_a_key_with_a_line_break_is_rejected_without_showing_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INTERLEAVE_API_KEY", raising=False)
    monkeypatch.setenv(name, f"{KEY}\nX-Other: 1")
    with pytest.raises(SettingsError, match=name) as caught:
        open_chat("openai:m@http://127.0.0.1:1/v1")
    assert KEY not in str(caught.value)


def test_cancelling_in_the_middle_of_a_reply(chat: ChatModel) -> None:
    def cancel(text: str) -> None:
        raise Cancelled("stop")

    with pytest.raises(Cancelled):
        chat.reply(ASK, ReplySettings(), cancel)


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>hello</html>",
        b"[]",
        b'{"choices": []}',
        b'{"choices": 5}',
        b'{"error": {"message": "no such model"}}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b"",
    ],
)
def test_an_invalid_answer_raises(raw: bytes, server: ChatServer, chat: ChatModel) -> None:
    server.raw = raw
    with pytest.raises(ChatError):
        chat.reply(ASK, ReplySettings())


def test_a_body_without_end_is_cut_off(
    server: ChatServer, chat: ChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave_thinker.backend.models.chat import openai_chat as openai_stream

    monkeypatch.setattr(openai_stream, "MAX_REPLY_BYTES", 1000)
    server.raw = json.dumps({"choices": [{"message": {"content": "x" * 5000}}]}).encode()
    with pytest.raises(ChatError, match="more than 1000 bytes"):
        chat.reply(ASK, ReplySettings())


def test_no_server_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChatError, match=r"Cannot reach .*127\.0\.0\.1:1/v1"):
        open_chat("openai:m@http://127.0.0.1:1/v1").reply(ASK, ReplySettings())


@pytest.mark.parametrize(
    "argument",
    [
        "",
        "model",
        "model@",
        "model@ftp://x",
        "m@http://user:secret@host/v1",
        "m@http://h/v1?key=secret",
        "m@http://h:x/",
    ],
)
def test_bad_addresses_are_rejected_without_showing_secrets(argument: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_chat(f"openai:{argument}")
    assert "secret" not in str(caught.value)


def test_sampling_goes_to_the_server_only_where_it_is_set(server: ChatServer, chat: ChatModel) -> None:
    chat.reply(ASK, ReplySettings(top_p=0.5, top_k=7))
    chat.reply(ASK, ReplySettings(temperature=0.7, top_p=0.5, top_k=7))
    greedy, drawn = server.requests
    assert not {"top_p", "top_k"} & greedy.keys(), "nothing is sampled"
    assert (drawn["top_p"], drawn["top_k"]) == (0.5, 7)


def test_a_server_without_top_k_raises_an_error(server: ChatServer, chat: ChatModel) -> None:
    server.faults = [(400, b"Unrecognized request argument supplied: top_k")]
    with pytest.raises(ChatError, match="does not support top_k"):
        chat.reply(ASK, ReplySettings(temperature=0.7, top_k=7))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("InterleaveThinker/InterleaveThinker-Planner-8B", True),
        ("/models/interleavethinker-planner-8b", True),
        ("Qwen3-VL-8B-Instruct", False),
    ],
)
def test_a_published_model_on_a_server_is_reported(
    server: ChatServer, caplog: pytest.LogCaptureFixture, model: str, told: bool
) -> None:
    chat = open_chat(f"openai:{model}@{server.spec.partition('@')[2]}")
    Planner(chat, default_prompt_set())
    assert not caplog.records, "a prompt set was named"
    Planner(chat)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == told
    assert all("prompts import" in line and "planner.prompts" in line for line in lines)


def test_a_model_that_the_server_no_longer_has_is_named(server: ChatServer, chat: ChatModel) -> None:
    server.faults = [(404, b'{"error": {"message": "The model `x` does not exist.", "code": 404}}')]
    with pytest.raises(ChatError, match="does not exist") as caught:
        chat.reply(ASK, ReplySettings())
    assert "/models lists" in caught.value.hint


def test_a_server_with_a_short_context_gets_a_smaller_token_limit(
    server: ChatServer, chat: ChatModel
) -> None:
    refusal = b"This model's maximum context length is 8192 tokens. However, you requested 17000 tokens"
    server.faults = [(400, refusal), (422, refusal)]
    long = ReplySettings(max_tokens=16384, watch_verdict=True)
    assert chat.reply(ASK, long).text
    assert [body["max_tokens"] for body in server.requests] == [16384, 8192, 4096]
    chat.reply(ASK, long)
    chat.reply(ASK, ReplySettings(max_tokens=600))
    assert [body["max_tokens"] for body in server.requests[3:]] == [4096, 600], (
        "the server does not reject it again"
    )


def test_a_server_without_any_context_left_raises_one_clear_error(
    server: ChatServer, chat: ChatModel
) -> None:
    server.faults = [(400, b"the prompt exceeds the context size")] * 20
    with pytest.raises(ChatError, match=r"status 400: the prompt exceeds.*longer context"):
        chat.reply(ASK, ReplySettings())
    assert server.requests[-1]["max_tokens"] == 512 and len(server.requests) == 4


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("streams", [True, False])
def test_reasoning_that_a_server_took_out_is_put_back(
    server: ChatServer, chat: ChatModel, name: str, streams: bool
) -> None:
    server.reasoning, server.streams = (name, "The hat is {'success': true}, missing."), streams
    server.text = FALSE
    reply = chat.reply(ASK, WATCH)
    assert reply.text == f"<think>The hat is {{'success': true}}, missing.</think>{FALSE}"
    assert reply.finish == "end", "a verdict in the thinking does not count"


@pytest.mark.parametrize("count", [-5, 10**30])
def test_a_number_of_tokens_that_no_reply_has_is_not_believed(
    server: ChatServer, chat: ChatModel, count: int
) -> None:
    reply = {"choices": [{"message": {"content": "yes"}}], "usage": {"completion_tokens": count}}
    server.raw = json.dumps(reply).encode()
    told = chat.reply([Message(role="user", content=("is it?",))], ReplySettings())
    assert told.text == "yes" and 0 <= told.tokens <= 10

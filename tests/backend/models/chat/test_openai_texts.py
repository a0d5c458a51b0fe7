"""Texts of a chat server: characters split between events, content in parts, and invalid token counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest
from support.chat_server import ChatServer, chat_server

from interleave_thinker.backend.core.errors import ChatError
from interleave_thinker.backend.models.chat import ChatModel, Message, ReplySettings, open_chat

ASK = [Message(role="user", content=("A boat?",))]
HIGH, LOW = "\ud83d", "\ude00"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server("yes") as running:
        yield running


@pytest.fixture
def chat(server: ChatServer) -> ChatModel:
    return open_chat(f"openai:{server.spec}")


def events(pieces: Sequence[str], field: str = "content") -> list[str]:
    choices = [{"delta": {field: piece}, "finish_reason": None} for piece in pieces]
    return [json.dumps({"choices": [one]}) for one in choices]


END = [json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]}), "[DONE]"]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a ", HIGH, LOW, " b"], "a 😀 b"),
        (["a " + HIGH, LOW + " b"], "a 😀 b"),
        (["a ", HIGH, "", " b"], "a \ufffd b"),
        (["a", LOW, "b"], "a\ufffdb"),
        (["a", HIGH, HIGH, LOW], "a\ufffd😀"),
        (["a", HIGH], "a\ufffd"),
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_halves_of_a_character_are_joined_over_events(
    server: ChatServer, chat: ChatModel, pieces: list[str], text: str, watched: bool
) -> None:
    server.events = events(pieces) + END
    shown: list[str] = []
    reply = chat.reply(ASK, ReplySettings(watch_verdict=watched), shown.append)
    assert reply.text == "".join(shown) == text
    reply.model_dump_json()


def test_a_lone_surrogate_at_the_end_of_the_reasoning_stays_there(
    server: ChatServer, chat: ChatModel
) -> None:
    server.events = events(["ha", HIGH], "reasoning_content") + events(["yes"]) + END
    assert chat.reply(ASK, ReplySettings()).text == "<think>ha\ufffd</think>yes"


def test_tokens_of_halves_stay_those_of_the_text(server: ChatServer, chat: ChatModel) -> None:
    """Otherwise the probability would be lost after any emoji."""
    answer = ["<think>", HIGH, LOW, "</think>", "<answer>", '{"success":', " true", ",", ' "x": 1}']
    tops = [{"token": " true", "logprob": -0.1}, {"token": " false", "logprob": -2.3}]
    server.events = [
        json.dumps(
            {
                "choices": [
                    {
                        "delta": {"content": piece},
                        "logprobs": {"content": [{"token": piece, "logprob": -0.1, "top_logprobs": tops}]},
                    }
                ]
            }
        )
        for piece in answer
    ] + END
    reply = chat.reply(ASK, ReplySettings(watch_verdict=True))
    assert reply.text == '<think>😀</think><answer>{"success": true, "x": 1}'
    assert reply.probability == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("count", ["NaN", "1e308", "12.5", "Infinity", "-1", "true", '"many"', "[]", "null"])
@pytest.mark.parametrize("name", ["completion_tokens", "prompt_tokens"])
def test_an_invalid_count_does_not_lose_the_reply(
    server: ChatServer, chat: ChatModel, name: str, count: str
) -> None:
    server.raw = b'{"choices": [{"message": {"content": "yes"}}], "usage": {"%s": %s}}' % (
        name.encode(),
        count.encode(),
    )
    reply = chat.reply(ASK, ReplySettings())
    assert reply.text == "yes" and reply.tokens == 1 and reply.question_tokens is None


@pytest.mark.parametrize("usage", ["[]", "5", '"none"', "null"])
def test_invalid_usage_does_not_lose_the_reply(server: ChatServer, chat: ChatModel, usage: str) -> None:
    server.raw = b'{"choices": [{"message": {"content": "yes"}}], "usage": %s}' % usage.encode()
    assert chat.reply(ASK, ReplySettings()).text == "yes"


def test_a_whole_number_written_as_a_float_is_a_count(server: ChatServer, chat: ChatModel) -> None:
    server.raw = b'{"choices": [{"message": {"content": "yes"}}], "usage": {"completion_tokens": 12.0}}'
    assert chat.reply(ASK, ReplySettings()).tokens == 12


def test_content_in_parts_is_joined(server: ChatServer, chat: ChatModel) -> None:
    parts = [
        {"type": "text", "text": "ye"},
        {"type": "text", "text": "s" + HIGH},
        {"type": "text", "text": LOW},
    ]
    server.raw = json.dumps({"choices": [{"message": {"content": parts}}]}).encode()
    assert chat.reply(ASK, ReplySettings()).text == "yes😀"
    server.raw, server.events = None, [json.dumps({"choices": [{"delta": {"content": parts}}]}), *END]
    assert chat.reply(ASK, ReplySettings()).text == "yes😀"


@pytest.mark.parametrize("part", [{"type": "image_url"}, {"type": "text", "text": 5}, "yes", None])
def test_a_part_without_text_raises(server: ChatServer, chat: ChatModel, part: object) -> None:
    server.raw = json.dumps({"choices": [{"message": {"content": [part]}}]}).encode()
    with pytest.raises(ChatError, match="not a reply"):
        chat.reply(ASK, ReplySettings())

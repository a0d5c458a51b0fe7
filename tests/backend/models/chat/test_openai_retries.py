"""Retries of a chat server: after Retry-After, else after a pause, and never after a rejection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import formatdate

import pytest
from support.chat_server import ChatServer, chat_server

from interleave_thinker.backend.core.errors import Cancelled, ServerError
from interleave_thinker.backend.core.remote.call import (
    MAX_ATTEMPTS,
    MAX_BUSY_ATTEMPTS,
    moment_of,
    retry_after,
    too_late,
)
from interleave_thinker.backend.models.chat import ChatModel, Message, ReplySettings, open_chat

ASK = [Message(role="user", content=("A boat?",))]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server("yes") as running:
        yield running


@pytest.fixture
def chat(server: ChatServer) -> ChatModel:
    return open_chat(f"openai:{server.spec}")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between requests take a hundredth of their time."""
    monkeypatch.setattr("interleave_thinker.backend.core.remote.call.FIRST_PAUSE", 0.0025)
    monkeypatch.setattr("interleave_thinker.backend.core.remote.call.MAX_PAUSE", 0.08)


def test_a_busy_server_is_retried_after_the_time_it_named(
    server: ChatServer, chat: ChatModel, quick: None
) -> None:
    server.busy_seconds = 0.9
    assert chat.reply(ASK, ReplySettings()).text == "yes"
    assert server.refused == 1, "retried only after the second that the server named"


def test_a_wait_beyond_the_deadline_fails_at_once(server: ChatServer) -> None:
    server.busy_seconds = 50.0
    with pytest.raises(ServerError, match=r"429: slow down; it is busy for at least 50 s.*deadline"):
        open_chat(f"openai:{server.spec}", deadline=20.0).reply(ASK, ReplySettings())
    assert server.refused == 1


def test_an_excessive_wait_fails_at_once(server: ChatServer, chat: ChatModel) -> None:
    server.busy_seconds = 86400.0
    with pytest.raises(ServerError, match="at least 86400 s"):
        chat.reply(ASK, ReplySettings())
    assert server.refused == 1


def test_a_wait_can_be_cancelled(server: ChatServer, chat: ChatModel) -> None:
    server.busy_seconds = 60.0

    def stop(text: str) -> None:
        if server.refused:
            raise Cancelled("Stopped.")

    with pytest.raises(Cancelled):
        chat.reply(ASK, ReplySettings(), stop)
    assert server.refused == 1


@pytest.mark.parametrize(
    ("status", "most"),
    [(429, MAX_BUSY_ATTEMPTS), (503, MAX_BUSY_ATTEMPTS), (500, MAX_ATTEMPTS), (502, MAX_ATTEMPTS)],
)
def test_temporary_failures_are_retried_a_few_times(
    server: ChatServer, chat: ChatModel, quick: None, status: int, most: int
) -> None:
    server.faults = [(status, b"not now")] * (most - 1)
    assert chat.reply(ASK, ReplySettings()).text == "yes"
    assert len(server.requests) == most
    server.faults = [(status, b"not now")] * 99
    with pytest.raises(ServerError, match=f"{status}: not now"):
        chat.reply(ASK, ReplySettings())
    assert len(server.requests) == 2 * most


@pytest.mark.parametrize(
    ("status", "said"),
    [(400, b"no"), (401, b"no"), (403, b"no"), (404, b"no"), (501, b"no"), (429, b'"insufficient_quota"')],
)
def test_rejected_requests_are_not_retried(
    server: ChatServer, chat: ChatModel, quick: None, status: int, said: bytes
) -> None:
    server.faults = [(status, said)] * 9
    with pytest.raises(ServerError, match=str(status)):
        chat.reply(ASK, ReplySettings())
    assert len(server.requests) == 1


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after("7") == 7.0 and retry_after("-3") == 0.0
    assert 20.0 < (retry_after(formatdate(time.time() + 30, usegmt=True)) or 0.0) <= 30.0
    assert retry_after(formatdate(time.time() - 30, usegmt=True)) == 0.0
    assert len(too_late("Busy.", retry_after("1e308") or 0.0)) < 100
    assert [retry_after(one) for one in (None, "", "soon", "nan", "inf", "1" * 101)] == [None] * 6


def test_a_status_tells_temporary_from_permanent_failures() -> None:
    said = {status: moment_of(status, "") for status in range(400, 1000)}
    assert {status for status, moment in said.items() if moment == "busy"} == {429, 503}
    assert {status for status, moment in said.items() if moment == "late"} == {408, 504}
    assert said[500] == said[520] == "down" and said[501] is said[600] is said[404] is None

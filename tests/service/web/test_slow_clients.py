"""Clients that keep the service waiting: partial headers, unread answers, repeated warnings."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install "interleave-thinker[serve]"')
pytest.importorskip("prometheus_client", reason='a service needs: pip install "interleave-thinker[serve]"')

from support.served_app import served_app
from support.small_pool import SmallPool

from interleave_thinker.cli.commands.serve import MAX_REPEATS, FewRepeats, few_repeats
from interleave_thinker.service.settings import ServiceSettings
from interleave_thinker.service.web import server

HALF_HEADER = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
WHOLE = b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
MAX_SECONDS = 60.0


@contextmanager
def connections(url: str, number: int, sent: bytes) -> Iterator[list[socket.socket]]:
    place = urlsplit(url)
    with ExitStack() as closing:
        opened = []
        for _ in range(number):
            one = closing.enter_context(socket.create_connection((place.hostname, place.port), MAX_SECONDS))
            one.sendall(sent)
            opened.append(one)
        yield opened


@pytest.mark.parametrize("before", [b"", WHOLE])
def test_a_header_has_its_time(before: bytes) -> None:
    settings = ServiceSettings(header_seconds=0.2)
    with served_app(SmallPool(), settings) as url, connections(url, 1, before) as (one,):
        if before:
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.sendall(HALF_HEADER)
        while one.recv(4096):
            pass


def test_equal_warnings_are_written_a_few_times_a_minute() -> None:
    few = FewRepeats(most=2, seconds=60.0)

    def written(at: float, text: str, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord("name", level, __file__, 1, text, ("client",), None)
        record.created = at
        return record.getMessage() if few.filter(record) else None

    assert [written(at, "bad %s") for at in (0.0, 1.0, 2.0, 3.0)] == ["bad client"] * 2 + [None] * 2
    assert written(4.0, "other %s") == "other client"
    assert [written(5.0, "fine %s", logging.INFO) for _ in range(3)] == ["fine client"] * 3
    assert written(61.0, "bad %s") == "bad client (2 more like it were left out.)"
    assert written(62.0, "bad %s") == "bad client"


@pytest.mark.parametrize("more", [b"", b"G"])
def test_client_that_does_not_read_its_answer_is_closed(more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    made = server.PatientProtocol.connection_made
    lost: list[bool] = []

    def with_small_buffers(self: server.PatientProtocol, transport: asyncio.Transport) -> None:
        # The system then leaves the end of an answer to the service.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        transport.set_write_buffer_limits(0)
        made(self, transport)

    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(server.PatientProtocol, "connection_made", with_small_buffers)
    monkeypatch.setattr(server.PatientProtocol, "connection_lost", lambda *given: lost.append(True))
    with served_app(SmallPool()) as url, socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        one.connect((urlsplit(url).hostname, urlsplit(url).port or 0))
        one.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        until = time.monotonic() + MAX_SECONDS
        if more:  # the next request does not replace the answer that it has to read
            time.sleep(0.1)
            one.sendall(more)
        while not lost:
            assert time.monotonic() < until
            time.sleep(0.02)


def test_the_limit_ends_with_the_service(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("interleave_thinker.service")
    with few_repeats():
        for _ in range(2 * MAX_REPEATS):
            logger.warning("bad %s", "client")
    assert len(caplog.records) == MAX_REPEATS
    logger.warning("bad %s", "client")
    assert len(caplog.records) == MAX_REPEATS + 1


def test_a_request_that_withholds_its_body_loses_its_connection() -> None:
    with served_app(SmallPool()) as url, socket.socket() as one:
        one.connect((urlsplit(url).hostname, urlsplit(url).port or 0))
        one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n")
        one.settimeout(MAX_SECONDS)
        assert b"connection: close" in one.recv(4096).lower()

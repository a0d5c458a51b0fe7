"""Clients that keep the service waiting or leave: partial headers, unread answers, repeated warnings."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')
pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')

from support.served_app import served_app
from support.small_pool import SmallPool

from interleave_thinker.cli.commands.serve import MAX_REPEATS, FewRepeats
from interleave_thinker.service.settings import ServiceSettings
from interleave_thinker.service.web import server

HALF_HEADER = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
WHOLE = b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
MAX_SECONDS = 60.0


@contextmanager
def connection(url: str, sent: bytes) -> Iterator[socket.socket]:
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), MAX_SECONDS) as one:
        one.sendall(sent)
        yield one


@pytest.mark.parametrize("before", [b"", WHOLE])
def test_a_header_has_its_time(before: bytes) -> None:
    settings = ServiceSettings(header_seconds=0.2)
    with served_app(SmallPool(), settings) as url, connection(url, before) as one:
        if before:
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.sendall(HALF_HEADER)
        while one.recv(4096):
            pass


def test_equal_warnings_are_written_a_few_times_a_minute() -> None:
    few = FewRepeats()

    def written(at: float, text: str, level: int = logging.WARNING) -> bool:
        record = logging.LogRecord("name", level, __file__, 1, text, ("client",), None)
        record.created = at
        return few.filter(record)

    assert [written(1.0, "bad %s") for _ in range(MAX_REPEATS + 2)] == [True] * MAX_REPEATS + [False] * 2
    assert written(2.0, "other %s") and written(2.0, "bad %s", logging.INFO) is False
    assert all(written(3.0, "fine %s", logging.INFO) for _ in range(2 * MAX_REPEATS))
    assert written(61.5, "bad %s"), "the next minute"


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


def test_a_request_that_withholds_its_body_loses_its_connection() -> None:
    with served_app(SmallPool()) as url, socket.socket() as one:
        one.connect((urlsplit(url).hostname, urlsplit(url).port or 0))
        one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n")
        one.settimeout(MAX_SECONDS)
        assert b"connection: close" in one.recv(4096).lower()


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=b"])
def test_a_body_that_ends_early_is_not_logged(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    route = "/edit" if "json" in kind else "/edit-upload"
    with served_app(SmallPool()) as url, caplog.at_level(logging.ERROR):
        head = f"POST {route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
        with connection(url, f"{head}Content-Length: 100\r\n\r\n--b\r\n".encode()):
            time.sleep(0.2)
        time.sleep(0.2)
        assert httpx.get(f"{url}/health", trust_env=False).is_success and not caplog.records

"""Clients that keep the service waiting: partial headers, partial bodies, idle connections."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install "interleave-thinker[serve]"')
pytest.importorskip("prometheus_client", reason='a service needs: pip install "interleave-thinker[serve]"')

from support.served_app import served_app
from support.small_pool import SmallPool

from interleave_thinker.cli.serve.quiet_log import MAX_REPEATS, FewRepeats, few_repeats
from interleave_thinker.service.settings import ServiceSettings
from interleave_thinker.service.web.listener import WatchedProtocol

HALF_HEADER = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
HALF_BODY = (
    b"POST /edit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)
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


def drawn(url: str, seed: int) -> int:
    return httpx.post(f"{url}/edit", json={"prompt": "a", "seed": seed}, timeout=MAX_SECONDS).status_code


@pytest.mark.parametrize("sent", [b"", HALF_HEADER, HALF_BODY, WHOLE])
def test_client_is_served_although_others_took_all_connections(sent: bytes) -> None:
    patient = ServiceSettings(connections=4, header_seconds=3600, body_seconds=3600)
    with served_app(SmallPool(), patient) as url, connections(url, 20, sent) as others:
        assert [drawn(url, seed) for seed in range(3)] == [200] * 3
        others[0].settimeout(MAX_SECONDS)
        while others[0].recv(4096):
            pass


@pytest.mark.parametrize("before", [b"", WHOLE])
def test_a_header_has_its_time(before: bytes) -> None:
    settings = ServiceSettings(header_seconds=0.2)
    with served_app(SmallPool(), settings) as url, connections(url, 1, before) as (one,):
        if before:
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.sendall(HALF_HEADER)
        while one.recv(4096):
            pass


def test_client_that_waits_for_an_image_keeps_its_connection() -> None:
    pool = SmallPool()
    pool.seconds = 0.5
    with (
        served_app(pool, ServiceSettings(connections=2)) as url,
        connections(url, 4, HALF_HEADER),
        ThreadPoolExecutor(4) as clients,
    ):
        assert list(clients.map(lambda seed: drawn(url, seed), range(6))) == [200] * 6


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


@pytest.mark.parametrize("kept", ["close", "keep-alive"])
def test_client_that_does_not_read_its_answer_is_closed(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = WatchedProtocol.connection_made

    def with_small_buffers(self: WatchedProtocol, transport: asyncio.Transport) -> None:
        # The system then leaves the end of an answer to the service.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        made(self, transport)

    monkeypatch.setattr(WatchedProtocol, "connection_made", with_small_buffers)
    asked = f"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: {kept}\r\n\r\n".encode()
    with served_app(SmallPool(), ServiceSettings(connections=4)) as url, ExitStack() as closing:
        place = urlsplit(url)
        for _ in range(4):
            one = closing.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            one.settimeout(MAX_SECONDS)
            one.connect((place.hostname, place.port or 0))
            one.sendall(asked)
        assert drawn(url, 1) == 200


def test_the_limit_ends_with_the_service(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("interleave_thinker.service")
    with few_repeats():
        for _ in range(2 * MAX_REPEATS):
            logger.warning("bad %s", "client")
    assert len(caplog.records) == MAX_REPEATS
    logger.warning("bad %s", "client")
    assert len(caplog.records) == MAX_REPEATS + 1

"""A client that leaves in the middle of its body is not an error of the service."""

from __future__ import annotations

import logging
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")

from support.served_app import served_app
from support.small_pool import SmallPool


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=b"])
def test_a_body_that_ends_early_leaves_no_trace_in_the_log(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    route = "/edit" if "json" in kind else "/edit-upload"
    with served_app(SmallPool()) as url, caplog.at_level(logging.ERROR):
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as one:
            head = f"POST {route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
            one.sendall(f"{head}Content-Length: 100\r\n\r\n--b\r\n".encode())
            time.sleep(0.2)
        until = time.monotonic() + 10
        while 'status="499"' not in httpx.get(f"{url}/metrics", trust_env=False).text:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert not caplog.records

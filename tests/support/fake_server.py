"""The HTTP server that the fake services of the tests are made of: it records requests and sends answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from typing_extensions import Self


class FakeHandler(BaseHTTPRequestHandler):
    """Answers one request. `server` is the service, a FakeServer."""

    server: Any

    def body(self) -> Any:
        """Read the JSON body of the request, and record it with its headers."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.record(body)
        return body

    def record(self, body: Any) -> None:
        """Record a request."""
        self.server.requests.append(body)
        self.record_headers()

    def record_headers(self) -> None:
        self.server.headers_seen.append({name.lower(): value for name, value in self.headers.items()})

    def fault(self) -> bool:
        """Send the next of the server's faults; return whether there was one."""
        if not self.server.faults:
            return False
        self.send(*self.server.faults.pop(0))
        return True

    def send(self, status: int, answer: Any, headers: Mapping[str, str] | None = None) -> None:
        """Send an answer: bytes as they are, anything else as JSON."""
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has hung up
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        return


class FakeServer(ThreadingHTTPServer):
    """A service on a free port of this machine. A subclass sets `handler`.

    Attributes:
        requests: Bodies of the requests.
        headers_seen: Their headers, with names in lower case.
        faults: (status, answer[, headers]) that are sent first, one per request.
        ends: Set when the block of `running` ends.
    """

    handler: type[FakeHandler]
    daemon_threads = True
    request_queue_size = 256
    path = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.handler)
        self.requests: list[dict[str, Any]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.faults: list[tuple[Any, ...]] = []
        self.ends = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run the server in a thread until the block ends."""
        thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.ends.set()
            self.shutdown()
            self.server_close()
            thread.join()

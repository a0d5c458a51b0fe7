"""A service with the published protocol in a dozen lines and adjustable behavior."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from support.image_service import paint
from support.server_thread import in_thread


class StandInService(ThreadingHTTPServer):
    """Paints after `seconds`; more than `most_at_once` parallel requests get status 503.

    `unlike_itself`: no two images are equal. `only_edits`: a request without an image is rejected.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seconds, self.most_at_once = 0.0, 1000
        self.unlike_itself = self.only_edits = False
        self.bodies: list[dict[str, Any]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.connections = 0
        self.at_work, self.lock = 0, Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: StandInService
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self._answer(200, {"status": "healthy", "gpu_manager_ready": True, "identity": "painter"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.bodies.append(body)
            server.headers_seen.append(dict(self.headers))
            number, server.at_work = len(server.bodies), server.at_work + 1
            refused = server.at_work > server.most_at_once
        try:
            if refused:
                self._answer(503, {"success": False, "error": "full"}, {"Retry-After": "2"})
            elif server.only_edits and not body["image"]:
                self._answer(400, {"detail": "an image is needed"})
            else:
                time.sleep(server.seconds)
                drawn = body | ({"number": number} if server.unlike_itself else {})
                self._answer(200, {"success": True, "edited_image": paint(drawn).base64_png()})
        finally:
            with server.lock:
                server.at_work -= 1

    def _answer(self, status: int, answer: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(data))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has hung up
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def stand_in_service() -> Iterator[StandInService]:
    """Run the service in a thread until the block ends."""
    with in_thread(StandInService()) as service:
        yield service

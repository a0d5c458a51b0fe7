"""A small image service for tests: a real HTTP server that paints from the digest of the request.

Its protocol is described in docs/reference/file-formats.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from select import select
from socket import MSG_PEEK
from threading import Barrier, Event
from typing import Any

from PIL import Image

from interleave_thinker.backend.core.pictures import Picture

from .server_thread import in_thread


class ImageService(ThreadingHTTPServer):
    """Records every request.

    `faults` are (status, body[, headers]) answers that come first, one per /edit request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.faults: list[tuple[int, bytes] | tuple[int, bytes, dict[str, str]]] = []
        self.hangs_at = ""
        """Path that is not answered before the service ends."""
        self.meets: Barrier | None = None
        """Barrier where every image waits for others, at this service or another one."""
        self.greeted = 0
        self.loading = 0
        """Number of greetings that are answered with a request to ask later."""
        self.left = Event()
        """Set when a client hung up without an answer."""
        self.ends = Event()
        self.hanging = Event()
        self.health: dict[str, Any] | None = {"status": "healthy", "gpus": 1, "model": "tiny-painter"}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: ImageService

    def do_GET(self) -> None:
        self.server.greeted += 1
        if self._hangs():
            return
        if self.path == "/health" and self.server.loading > 0:
            self.server.loading -= 1
            self._answer(503, b'{"status": "loading"}', {"Retry-After": "0.3"})
        elif self.path == "/health" and self.server.health is not None:
            self._answer(200, json.dumps(self.server.health).encode())
        else:
            self._answer(404, b"not found")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.headers_seen.append(dict(self.headers))
        if self._hangs():
            return
        if self.server.faults:
            self._answer(*self.server.faults.pop(0))
            return
        if self.server.meets is not None:
            self.server.meets.wait(30)
        answer = {
            "success": True,
            "edited_image": paint(body).base64_png(),
            "original_image": body["image"],
            "seed": body["seed"],
            "gpu_id": 0,
            "processing_time": 0.01,
        }
        self._answer(200, json.dumps(answer).encode())

    def _hangs(self) -> bool:
        if self.path != self.server.hangs_at:
            return False
        self.server.hanging.set()
        while not self.server.ends.is_set():
            if select([self.connection], [], [], 0.02)[0] and not self.connection.recv(1, MSG_PEEK):
                self.server.left.set()
                break
        self.close_connection = True
        return True

    def _answer(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def paint(body: dict[str, Any]) -> Picture:
    """Return noise that depends on the whole request, with its size, the source's, or 64x64."""
    size = (64, 64)
    if body["image"]:
        size = Picture.from_base64(body["image"]).size
    size = (body.get("width") or size[0], body.get("height") or size[1])
    seed = hashlib.blake2b(json.dumps(body, sort_keys=True).encode()).digest()
    tile = Image.frombytes("RGB", (4, 4), (seed)[:48])
    return Picture(tile.resize(size))


@contextmanager
def image_service() -> Iterator[ImageService]:
    """Run the service in a thread until the block ends."""
    with in_thread(ImageService()) as service:
        try:
            yield service
        finally:
            service.ends.set()

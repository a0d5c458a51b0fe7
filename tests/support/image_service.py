"""A small image service for tests: a real HTTP server that paints from the digest of the request.

Its protocol is described in docs/reference/file-formats.md.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import AbstractContextManager
from select import select
from socket import MSG_PEEK
from threading import Barrier, Event, Lock
from typing import Any

from PIL import Image

from interleave_thinker.backend.core.pictures import Picture

from .fake_server import FakeHandler, FakeServer


class _Handler(FakeHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self.server.greeted += 1
        if self._hangs():
            return
        if self.path == "/health" and self.server.loading > 0:
            self.server.loading -= 1
            self.send(503, {"status": "loading"}, {"retry-after": "0.3"})
        elif self.path == "/health" and self.server.health is not None:
            self.send(200, self.server.health)
        else:
            self.send(404, b"not found")

    def do_POST(self) -> None:
        server, body = self.server, self.body()
        with server.lock:
            number, server.at_work = len(server.requests), server.at_work + 1
            refused = server.at_work > server.most_at_once
        try:
            if self._hangs() or self.fault():
                return
            if refused:
                self.send(503, {"success": False, "error": "full"}, {"retry-after": "2"})
            elif server.only_edits and not body["image"]:
                self.send(400, {"detail": "an image is needed"})
            else:
                self._paint(body | ({"number": number} if server.unlike_itself else {}))
        finally:
            with server.lock:
                server.at_work -= 1

    def _paint(self, body: dict[str, Any]) -> None:
        time.sleep(self.server.seconds)
        if self.server.meets is not None:
            self.server.meets.wait(30)
        answer = {"success": True, "edited_image": paint(body).base64_png(), "original_image": body["image"]}
        self.send(200, answer | {"seed": body.get("seed"), "gpu_id": 0, "processing_time": 0.01})

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


class ImageService(FakeServer):
    """A service that paints. Its behavior is adjustable.

    Attributes:
        seconds: Seconds per image.
        most_at_once: More parallel requests get status 503.
        unlike_itself: No two images are equal.
        only_edits: A request without an image is rejected.
        hangs_at: Path that is not answered before the service ends. `hanging` is set when it is requested.
        left: Set when a client hung up without an answer.
        meets: Barrier where every image waits for others, at this service or another one.
        loading: Number of greetings that are answered with a request to ask later.
        health: Answer of /health.
    """

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.most_at_once = 0.0, 1000
        self.unlike_itself = self.only_edits = False
        self.hangs_at, self.hanging, self.left = "", Event(), Event()
        self.meets: Barrier | None = None
        self.greeted = self.loading = self.connections = self.at_work = 0
        self.lock = Lock()
        self.health: dict[str, Any] | None = {"status": "healthy", "gpus": 1, "model": "tiny-painter"}


def paint(body: dict[str, Any]) -> Picture:
    """Return noise that depends on the whole request, with its size, the source's, or 64x64."""
    size = (64, 64)
    if body["image"]:
        size = Picture.from_base64(body["image"]).size
    size = (body.get("width") or size[0], body.get("height") or size[1])
    seed = hashlib.blake2b(json.dumps(body, sort_keys=True).encode()).digest()
    tile = Image.frombytes("RGB", (4, 4), (seed)[:48])
    return Picture(tile.resize(size))


def image_service() -> AbstractContextManager[ImageService]:
    """Run the service in a thread until the block ends."""
    return ImageService().running()

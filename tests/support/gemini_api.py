"""A small server of the Gemini API for tests.

It paints like image_service, in the pixels of the requested class and aspect ratio. Without a seed in the
protocol, its images depend on prompt, images and settings, and with `changes` also on the number of the
request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from interleave_thinker.backend.core.pictures import Picture

from .image_service import paint
from .server_thread import in_thread

MODEL = "tiny-image"
BLOCKED = json.dumps({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}).encode()
"""The answer to a prompt that the provider refuses."""
SIDES = {"1K": 1024, "2K": 2048, "4K": 4096}


class GeminiService(ThreadingHTTPServer):
    """Records every request. `faults` are answered first, one per image."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers_seen: list[dict[str, str]] = []
        self.faults: list[tuple[int, bytes]] = []
        self.greeting: tuple[int, bytes] = (200, json.dumps({"name": f"models/{MODEL}"}).encode())
        self.key = ""
        """Key without which a request is rejected as the provider does it."""
        self.changes = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: GeminiService

    def do_GET(self) -> None:
        self._seen()
        if self._allowed():
            self._send(*self.server.greeting)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._seen()
        self.server.requests.append(body)
        if not self._allowed():
            return
        if self.server.faults:
            self._send(*self.server.faults.pop(0))
            return
        image = painted(body, len(self.server.requests) if self.server.changes else 0)
        self._send(200, answered({"inlineData": {"mimeType": "image/png", "data": image.base64_png()}}))

    def _seen(self) -> None:
        self.server.paths.append(self.path)
        self.server.headers_seen.append({name.lower(): value for name, value in self.headers.items()})

    def _allowed(self) -> bool:
        if self.headers.get("x-goog-api-key", "") == self.server.key or not self.server.key:
            return True
        given = self.headers.get("x-goog-api-key", "")
        error = {
            "code": 400,
            "message": f"API key not valid: {given}",
            "status": "INVALID_ARGUMENT",
            "details": [{"reason": "API_KEY_INVALID"}],
        }
        self._send(400, json.dumps({"error": error}).encode())
        return False

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def answered(*parts: dict[str, Any], finish: str = "STOP") -> bytes:
    """Return an answer with these parts."""
    content = {"role": "model", "parts": list(parts)}
    return json.dumps({"candidates": [{"content": content, "finishReason": finish, "index": 0}]}).encode()


def images_in(body: dict[str, Any]) -> list[Picture]:
    """Return the images of a request in order."""
    parts = body["contents"][0]["parts"]
    return [Picture.from_base64(part["inlineData"]["data"]) for part in parts if "inlineData" in part]


def painted(body: dict[str, Any], number: int = 0) -> Picture:
    """Return the image of a request."""
    form = body["generationConfig"]["imageConfig"]
    across, down = map(int, form["aspectRatio"].split(":"))
    side = SIDES[form.get("imageSize", "1K")]
    longest = max(across, down)
    size = {"width": side * across // longest, "height": side * down // longest}
    return paint({"image": None, "body": json.dumps(body, sort_keys=True), "number": number, **size})


@contextmanager
def gemini_service() -> Iterator[GeminiService]:
    """Run the server in a thread until the block ends."""
    with in_thread(GeminiService()) as service:
        yield service

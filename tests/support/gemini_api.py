"""A small server of the Gemini API for tests.

It paints like image_service, in the pixels of the requested class and aspect ratio. Without a seed in the
protocol, its images depend on prompt, images and settings, and with `changes` also on the number of the
request.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

from interleave_thinker.backend.core.pictures import Picture

from .fake_server import FakeHandler, FakeServer
from .image_service import paint

MODEL = "tiny-image"
BLOCKED = json.dumps({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}).encode()
"""The answer to a prompt that the provider refuses."""
SIDES = {"1K": 1024, "2K": 2048, "4K": 4096}


class _Handler(FakeHandler):
    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.record_headers()
        if self._allowed():
            self.send(*self.server.greeting)

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        body = self.body()
        if self._allowed() and not self.fault():
            image = painted(body, len(self.server.requests) if self.server.changes else 0)
            self.send(200, answered({"inlineData": {"mimeType": "image/png", "data": image.base64_png()}}))

    def _allowed(self) -> bool:
        given = self.headers.get("x-goog-api-key", "")
        if not self.server.key or given == self.server.key:
            return True
        error = {"code": 400, "message": f"API key not valid: {given}", "status": "INVALID_ARGUMENT"}
        self.send(400, {"error": {**error, "details": [{"reason": "API_KEY_INVALID"}]}})
        return False


class GeminiService(FakeServer):
    """`key` is the one without which a request is rejected as the provider does it."""

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []
        self.greeting: tuple[int, bytes] = (200, json.dumps({"name": f"models/{MODEL}"}).encode())
        self.key = ""
        self.changes = False


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


def gemini_service() -> AbstractContextManager[GeminiService]:
    """Run the server in a thread until the block ends."""
    return GeminiService().running()

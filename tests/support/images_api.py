"""A small server of the OpenAI Images API for tests, like open servers or like hosted ones.

Open ones have seeds, an OpenAPI page and errors as `detail`. Hosted ones have no seed, reject unknown fields
and send errors as `error`. It paints like image_service.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

from interleave_thinker.backend.core.pictures import Picture

from .image_service import paint
from .server_thread import in_thread

STANDARD = {"model", "prompt", "n", "size", "image", "image[]", "mask", "quality", "user"}
EXTRAS = ["seed", "num_inference_steps", "guidance_scale", "negative_prompt"]


class ImagesService(ThreadingHTTPServer):
    """Records the fields and images of every request. `faults` are answered first."""

    daemon_threads = True

    def __init__(self, hosted: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hosted = hosted
        self.extras = [] if hosted else list(EXTRAS)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.pages: list[str] = []
        self.faults: list[tuple[int, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def page(self) -> dict[str, Any]:
        """Return its OpenAPI description, with one reference and one inline schema."""
        fields = {name: {} for name in ("prompt", "model", "size", *self.extras)}
        edits = {"schema": {"properties": {**fields, "image": {}, "image[]": {}, "mask": {}}}}
        named = {"schema": {"$ref": "#/components/schemas/ImageRequest"}}
        return {
            "paths": {
                "/v1/images/generations": {"post": {"requestBody": {"content": {"application/json": named}}}},
                "/v1/images/edits": {"post": {"requestBody": {"content": {"multipart/form-data": edits}}}},
            },
            "components": {"schemas": {"ImageRequest": {"properties": fields}}},
        }


class _Handler(BaseHTTPRequestHandler):
    server: ImagesService

    def do_GET(self) -> None:
        self.server.pages.append(self.path)
        if self.path == "/v1/models":
            self._answer(200, {"data": [{"id": "painter"}]})
        elif self.path == "/openapi.json" and not self.server.hosted:
            self._answer(200, self.server.page)
        else:
            self._answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        body = self._form(content) if "multipart" in self.headers["Content-Type"] else json.loads(content)
        self.server.requests.append(body)
        self.server.keys.append(self.headers.get("Authorization", ""))
        if self.server.faults:
            status, said = self.server.faults.pop(0)
            self._send(status, said)
            return
        unknown = sorted(set(body) - STANDARD - {"images"})
        if self.server.hosted and unknown:
            error = {"message": f"Unknown parameter: '{unknown[0]}'.", "param": unknown[0]}
            self._answer(400, {"error": {**error, "type": "invalid_request_error"}})
            return
        image = painted(body, len(self.server.requests) if self.server.hosted else 0)
        self._answer(200, {"created": 1, "data": [{"b64_json": image.base64_png(), "url": None}]})

    def _form(self, content: bytes) -> dict[str, Any]:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        found: dict[str, Any] = {"images": []}
        for part in BytesParser(policy=HTTP).parsebytes(head + content).iter_parts():
            name = part.get_param("name", header="content-disposition")
            data = part.get_payload(decode=True)
            assert isinstance(data, bytes)
            if part.get_filename() is None:
                found[str(name)] = data.decode()
            elif name in ("image", "image[]"):
                found.setdefault(str(name), []).append(part.get_filename())
                found["images"].append(Picture.from_bytes(data))
            else:
                found[str(name)] = Image.open(io.BytesIO(data))
        return found

    def _answer(self, status: int, said: dict[str, Any]) -> None:
        self._send(status, json.dumps(said).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def painted(body: dict[str, Any], number: int = 0) -> Picture:
    """Return the image of a request; `number` gives a different one where no seed does."""
    images = body.get("images", [])
    mask = base64.b64encode(body["mask"].tobytes()).decode() if "mask" in body else ""
    width, _, height = str(body.get("size", "")).partition("x")
    drawn_from: dict[str, Any] = {name: str(body.get(name)) for name in ("prompt", *EXTRAS)}
    drawn_from |= {"image": images[0].base64_png() if images else None, "number": number, "mask": mask}
    drawn_from |= {"others": [one.digest for one in images]}
    if height:
        drawn_from |= {"width": int(width), "height": int(height)}
    return paint(drawn_from)


@contextmanager
def images_service(hosted: bool = False) -> Iterator[ImagesService]:
    """Run the server in a thread until the block ends."""
    with in_thread(ImagesService(hosted)) as service:
        yield service

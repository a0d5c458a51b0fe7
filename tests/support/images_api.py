"""A small server of the OpenAI Images API for tests, like open servers or like hosted ones.

Open ones have seeds, an OpenAPI page and errors as `detail`. Hosted ones have no seed, reject unknown fields
and send errors as `error`. It paints like image_service.
"""

from __future__ import annotations

import base64
import io
import json
from contextlib import AbstractContextManager
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

from PIL import Image

from interleave_thinker.backend.core.pictures import Picture

from .fake_server import FakeHandler, FakeServer
from .image_service import paint

STANDARD = {"model", "prompt", "n", "size", "image", "image[]", "mask", "quality", "user"}
EXTRAS = ["seed", "num_inference_steps", "guidance_scale", "negative_prompt"]


class _Handler(FakeHandler):
    def do_GET(self) -> None:
        self.server.pages.append(self.path)
        if self.path == "/v1/models":
            self.send(200, {"data": [{"id": "painter"}]})
        elif self.path == "/openapi.json" and not self.server.hosted:
            self.send(200, self.server.page)
        else:
            self.send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        body = self._form(content) if "multipart" in self.headers["Content-Type"] else json.loads(content)
        self.record(body)
        if self.fault():
            return
        unknown = sorted(set(body) - STANDARD - {"images"})
        if self.server.hosted and unknown:
            error = {"message": f"Unknown parameter: '{unknown[0]}'.", "param": unknown[0]}
            self.send(400, {"error": {**error, "type": "invalid_request_error"}})
            return
        image = painted(body, len(self.server.requests) if self.server.hosted else 0)
        self.send(200, {"created": 1, "data": [{"b64_json": image.base64_png(), "url": None}]})

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


class ImagesService(FakeServer):
    """Records the fields and images of every request."""

    handler, path = _Handler, "/v1"

    def __init__(self, hosted: bool = False) -> None:
        super().__init__()
        self.hosted = hosted
        self.extras = [] if hosted else list(EXTRAS)
        self.pages: list[str] = []

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


def images_service(hosted: bool = False) -> AbstractContextManager[ImagesService]:
    """Run the server in a thread until the block ends."""
    return ImagesService(hosted).running()

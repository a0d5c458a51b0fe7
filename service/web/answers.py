"""Builds answers: errors in the format of each kind of client, and images under the field name of each route.

Every rejection is JSON with `success: false` and `error`, because clients of the published services parse the
body of every status. Under /v1 it has the format of the Images API.
"""

from __future__ import annotations

import base64
import json
import math
import time
import uuid
from typing import Any

from ..pool import GeneratedImage, ServiceError

IMAGES_API = "/v1"


def is_images_api(path: str) -> bool:
    """Return whether a path belongs to the Images API."""
    return path == IMAGES_API or path.startswith(f"{IMAGES_API}/")


def error_body(path: str, error: ServiceError) -> dict[str, Any]:
    """Return the JSON of an error. `detail` is as in FastAPI's own errors."""
    said = str(error)
    detail = getattr(error, "detail", said)
    if is_images_api(path):
        kind = "invalid_request_error" if status_of(path, error) < 500 else "server_error"
        described = {"message": said, "type": kind, "param": _field(detail), "code": type(error).__name__}
        return {"error": described, "detail": detail}
    return {"success": False, "error": said, "detail": detail}


def error_headers(error: ServiceError) -> dict[str, str]:
    """Return the headers of an error, with Retry-After if known."""
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    return headers


def status_of(path: str, error: ServiceError) -> int:
    """Return the HTTP status of an error.

    A refusal by the model is a normal answer for clients of the published services, and a bad request for
    others.
    """
    return 400 if error.status == 200 and is_images_api(path) else error.status


def _field(detail: Any) -> str | None:
    """Return the invalid field of a body, from FastAPI's list of errors."""
    place = detail[0].get("loc", ()) if isinstance(detail, list) and detail else ()
    return ".".join(map(str, place[1:])) or None


def drawn_body(drawn: GeneratedImage, said: dict[str, Any], image: str, seconds: str) -> bytes:
    """Return the JSON of an image.

    Args:
        drawn: The image.
        said: Further fields.
        image: Field name of the file in base64.
        seconds: Field name of the duration.
    """
    fields = {
        "success": True,
        "task_id": uuid.uuid4().hex,
        "seed": drawn.seed,
        "gpu_id": drawn.gpu,
        seconds: round(drawn.draw_seconds + drawn.encode_seconds, 4),
        "error": None,
        "worker": drawn.worker,
        "size": list(drawn.size),
        "ignored": list(drawn.ignored),
        **said,
    }
    # Base64 contains no characters to escape, so json.dumps would only waste time on megabytes.
    head = json.dumps(fields)[:-1].encode()
    return head + f', "{image}": "'.encode() + base64.b64encode(drawn.image) + b'"}'


def images_body(images: list[GeneratedImage]) -> bytes:
    """Return the JSON of the Images API. Seeds and ignored settings are additional fields."""
    parts = [
        b'{"b64_json": "%s", "seed": %d, "revised_prompt": null}' % (base64.b64encode(one.image), one.seed)
        for one in images
    ]
    ignored = json.dumps(sorted({name for one in images for name in one.ignored})).encode()
    head = b'{"created": %d, "ignored": %s, "data": [' % (int(time.time()), ignored)
    return head + b", ".join(parts) + b"]}"


def images_events(images: list[GeneratedImage], kind: str, file: str) -> bytes:
    """Return the server-sent events of the Images API, one per image.

    Args:
        images: The images.
        kind: `image_generation` or `image_edit`.
        file: Format of the files.
    """
    name = f"{kind}.completed"
    events = [
        {
            "type": name,
            "b64_json": base64.b64encode(one.image).decode("ascii"),
            "created_at": int(time.time()),
            "size": f"{one.size[0]}x{one.size[1]}",
            "quality": "auto",
            "background": "opaque",
            "output_format": file,
            "seed": one.seed,
            "ignored": list(one.ignored),
        }
        for one in images
    ]
    return b"".join(f"event: {name}\ndata: {json.dumps(one)}\n\n".encode() for one in events)

"""What clients get: an error in the form that each kind of client can read, an image as each names it.

Decision: every refusal is JSON with `success: false` and `error`, because clients of the published services
parse the body whatever the status is; under /v1 it is the Images API's own form.
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
    """Whether clients of the Images API ask at this path."""
    return path == IMAGES_API or path.startswith(f"{IMAGES_API}/")


def error_body(path: str, error: ServiceError) -> dict[str, Any]:
    """The JSON of a refusal; `detail` is what FastAPI's own errors have."""
    said = str(error)
    detail = getattr(error, "detail", said)
    if is_images_api(path):
        kind = "invalid_request_error" if status_of(path, error) < 500 else "server_error"
        described = {"message": said, "type": kind, "param": _field(detail), "code": type(error).__name__}
        return {"error": described, "detail": detail}
    return {"success": False, "error": said, "detail": detail}


def error_headers(error: ServiceError) -> dict[str, str]:
    """When to come back, where that is known."""
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    return headers


def status_of(path: str, error: ServiceError) -> int:
    """The HTTP status: what the model refuses is an answer to clients of the published services, and a bad
    request to the others."""
    return 400 if error.status == 200 and is_images_api(path) else error.status


def _field(detail: Any) -> str | None:
    """The field of a body that is wrong, from FastAPI's list of faults."""
    place = detail[0].get("loc", ()) if isinstance(detail, list) and detail else ()
    return ".".join(map(str, place[1:])) or None


def drawn_body(drawn: GeneratedImage, said: dict[str, Any], image: str, seconds: str) -> bytes:
    """JSON of an image: under the name `image` the file in base64, under `seconds` what it took, and
    `said`."""
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
    # Megabytes of base64 need no search for characters to escape.
    head = json.dumps(fields)[:-1].encode()
    return head + f', "{image}": "'.encode() + base64.b64encode(drawn.image) + b'"}'


def images_body(images: list[GeneratedImage]) -> bytes:
    """JSON of the Images API; seeds and settings that were left out are extras."""
    parts = [
        b'{"b64_json": "%s", "seed": %d, "revised_prompt": null}' % (base64.b64encode(one.image), one.seed)
        for one in images
    ]
    ignored = json.dumps(sorted({name for one in images for name in one.ignored})).encode()
    head = b'{"created": %d, "ignored": %s, "data": [' % (int(time.time()), ignored)
    return head + b", ".join(parts) + b"]}"


def images_events(images: list[GeneratedImage], kind: str, file: str) -> bytes:
    """Server-sent events of the Images API, one for each image; `kind` is image_generation or image_edit,
    and `file` the kind of the files."""
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

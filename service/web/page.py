"""The page at `/`: the state of the service, its last images, and a form that generates images.

It is one file without a framework and uses the same routes as every client. Browsers get the page, and other
clients the JSON of the published services. The policy allows only the script and the style in the file, by
their digests, so that text in a model's name or an error cannot run. Foreign text is only inserted as text.
Images of other clients are shown only with the API key, and without prompts or client addresses.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from ..front import Front
from ..pool import ServiceError

FILE = Path(__file__).with_name("page.html")
SAID = {"message": "Image models as a service; see /docs for the routes.", "status": "running"}
KINDS = ((b"\x89PNG", "image/png"), (b"RIFF", "image/webp"))


class NoSuchImage(ServiceError):
    """The image is not cached any more."""

    status = 404


def page_routes(front: Front) -> APIRouter:
    """Return the routes of `/` and of the last images."""
    router = APIRouter(tags=["page"])

    @router.get("/", summary="State of the service; a page for browsers")
    async def root(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(SAID, headers={"Vary": "Accept"})
        text, policy = _page()
        return HTMLResponse(
            text,
            headers={
                "Content-Security-Policy": policy,
                "Cache-Control": "no-cache",
                "Referrer-Policy": "no-referrer",
                "Vary": "Accept",
                "X-Content-Type-Options": "nosniff",
            },
        )

    @router.get("/recent", summary="The last images, newest first")
    async def recent() -> list[dict[str, Any]]:
        found = []
        for key in dict.fromkeys(front.recent):
            drawn = front.kept.get(key)
            if drawn is not None:
                width, height = drawn.size
                seconds = round(drawn.draw_seconds, 3)
                found.append(
                    {"id": key, "width": width, "height": height, "seed": drawn.seed, "seconds": seconds}
                )
        return found

    @router.get("/recent/{key}", summary="One of the last images")
    async def image(key: str) -> Response:
        drawn = front.kept.get(key) if key in front.recent else None
        if drawn is None:
            raise NoSuchImage("This image is no longer cached.")
        kind = next((kind for start, kind in KINDS if drawn.image.startswith(start)), "image/png")
        return Response(drawn.image, media_type=kind, headers={"X-Content-Type-Options": "nosniff"})

    return router


@lru_cache(maxsize=1)
def _page() -> tuple[str, str]:
    """Return the page, and the content security policy for it."""
    text = FILE.read_text(encoding="utf-8")
    script, style = (_digest(text, name) for name in ("script", "style"))
    return text, (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src blob: data:; "
        "connect-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _digest(text: str, name: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    assert found is not None
    return f"'sha256-{base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()}'"

"""The page at `/`: what the service does now, its last images, and a form that draws.

Decision: one file without a framework, which asks the same routes as every client. Browsers get it, everybody
else the JSON of the published services. Only the script and the style that are in the file run, by their
digests, whatever a model's name or an error may hold; the page puts foreign text nowhere but into text. What
it shows of others' images is behind the key, and says neither prompts nor who asked.
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
SAID = {"message": "Image models as a service; /docs says how to ask.", "status": "running"}
KINDS = ((b"\x89PNG", "image/png"), (b"RIFF", "image/webp"))


class NoSuchImage(ServiceError):
    """The image is no longer kept."""

    status = 404


def page_routes(front: Front) -> APIRouter:
    """`/`, and the last images of the service that `front` stands for."""
    router = APIRouter(tags=["page"])

    @router.get("/", summary="That it is here; a page for browsers")
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
            drawn = front.shared.kept.get(key)
            if drawn is not None:
                width, height = drawn.size
                seconds = round(drawn.draw_seconds, 3)
                found.append(
                    {"id": key, "width": width, "height": height, "seed": drawn.seed, "seconds": seconds}
                )
        return found

    @router.get("/recent/{key}", summary="One of the last images")
    async def image(key: str) -> Response:
        drawn = front.shared.kept.get(key) if key in front.recent else None
        if drawn is None:
            raise NoSuchImage("This image is no longer kept.")
        kind = next((kind for start, kind in KINDS if drawn.image.startswith(start)), "image/png")
        return Response(drawn.image, media_type=kind, headers={"X-Content-Type-Options": "nosniff"})

    return router


@lru_cache(maxsize=1)
def _page() -> tuple[str, str]:
    """The page, and the policy under which a browser runs it."""
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

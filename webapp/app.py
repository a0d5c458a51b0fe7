"""The web app as a FastAPI app: who may call it, and what its page may load.

Its own page on this machine may call it, or a person with the key. The rules are those of the pack's routes
in ComfyUI (`own_servers.py`): pages of other sites are refused, and an app for this machine only must be
called by a name of this machine or an IP address. If the app listens for other machines, every request needs
the key, which the browser asks for itself (HTTP Basic), so it is in no page, address or file. A public
try-out needs no key: its visitors are kept apart by a cookie.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from starlette.datastructures import Headers
from starlette.staticfiles import StaticFiles

from ..backend.core.remote.own_servers import from_own_page, may_be_called
from .board import Board
from .routes import PREFIX, add_routes, refused
from .visitors import Visitors

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PAGE = Path(__file__).with_name("page")
WEB = Path(__file__).parents[1] / "web"
"""The scripts, the style and the texts that the page shares with the nodes."""


def create_app(boards: Board | Visitors, listening: str, key: str | None = None) -> FastAPI:
    """Create the app.

    Args:
        boards: Generates the stories; in a public try-out, those of each visitor.
        listening: Address on which it will listen.
        key: Key that every request needs. None: no key.
    """
    app = FastAPI(title="InterleaveThinker", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.boards = boards
    public = boards if isinstance(boards, Visitors) else None
    add_routes(app, public.board if public else lambda request: app.state.boards)
    given = HEADERS if public is None or not public.public.frame else _framed(public.public.frame)

    @app.middleware("http")
    async def admit(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        # Every site may link to a public page. What the page asks for has to come from the page itself.
        is_open = public is not None and not request.url.path.startswith(PREFIX)
        refusal = None if is_open else _refusal(request.headers, listening, key)
        response = refusal or await answer(request)
        response.headers.update(given)
        # Without a rule, browsers keep files of the page that a new version has changed.
        response.headers.setdefault("Cache-Control", "no-cache")
        return response

    @app.get("/")
    async def page(request: Request) -> FileResponse:
        shown = FileResponse(PAGE / "index.html", media_type="text/html")
        if public is not None:
            public.welcome(request, shown)
        return shown

    app.mount("/page", StaticFiles(directory=PAGE))
    app.mount("/web", StaticFiles(directory=WEB))
    return app


def _framed(site: str) -> dict[str, str]:
    """Return the headers of a page that a site may show in a frame."""
    return HEADERS | {"Content-Security-Policy": POLICY.replace("ancestors 'none'", f"ancestors {site}")}


def _refusal(headers: Headers, listening: str, key: str | None) -> Response | None:
    """Return the answer to a request that may not be made, None if it may."""
    if not from_own_page(headers):
        return refused(403, "Only the web app's own page may request this.")
    if not may_be_called(headers.get("Host", ""), listening):
        host = headers.get("Host", "")[:100]
        return refused(403, f"The web app accepts requests of this machine only, but was called as {host!r}.")
    if key and not _has_key(headers, key.encode()):
        answer = refused(401, "The web app needs its key as the password.")
        answer.headers["WWW-Authenticate"] = 'Basic realm="InterleaveThinker", charset="UTF-8"'
        return answer
    return None


def _has_key(headers: Headers, key: bytes) -> bool:
    kind, _, given = headers.get("Authorization", "").partition(" ")
    try:
        password = base64.b64decode(given.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return False
    return kind.lower() == "basic" and hmac.compare_digest(password, key)

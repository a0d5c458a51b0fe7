"""The web app as a FastAPI app: who may call it, and what its page may load.

Its own page on this machine may call it, or a person with the key. The rules are those of the pack's routes
in ComfyUI (`own_servers.py`): pages of other sites are refused, and an app for this machine only must be
called by a name of this machine or an IP address. If the app listens for other machines, every request needs
the key, which the browser asks for itself (HTTP Basic), so it is in no page, address or file.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.datastructures import Headers
from starlette.staticfiles import StaticFiles

from ..backend.core.remote.own_servers import from_own_page, may_be_called
from .board import Board
from .routes import add_routes, refused

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

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
NO_CACHE = (b"cache-control", b"no-cache")


class Admission:
    """The app behind its checks, as ASGI middleware.

    Args:
        app: The app.
        listening: Address on which it listens.
        key: Key that every request needs. None: no key.
    """

    def __init__(self, app: Any, listening: str, key: str | None = None) -> None:
        self._app, self._listening = app, listening
        self._key = key.encode() if key else None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI specifies."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", ())
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                # Without a rule, browsers keep files of the page that a new version has changed.
                rule = () if any(name == b"cache-control" for name, _ in given) else (NO_CACHE,)
                message["headers"] = [*given, *own, *rule]
            await send(message)

        headers = Headers(scope=scope)
        answer = None
        if not from_own_page(headers):
            answer = refused(403, "Only the web app's own page may request this.")
        elif not may_be_called(headers.get("Host", ""), self._listening):
            answer = refused(
                403,
                f"The web app accepts requests of this machine only, but was called as "
                f"{headers.get('Host', '')[:100]!r}.",
            )
        elif not self._has_key(headers):
            answer = refused(401, "The web app needs its key as the password.")
            answer.headers["WWW-Authenticate"] = 'Basic realm="InterleaveThinker", charset="UTF-8"'
        await (answer or self._app)(scope, receive, with_headers)

    def _has_key(self, headers: Headers) -> bool:
        if self._key is None:
            return True
        kind, _, given = headers.get("Authorization", "").partition(" ")
        try:
            password = base64.b64decode(given.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return False
        return kind.lower() == "basic" and hmac.compare_digest(password, self._key)


PAGE = Path(__file__).with_name("page")
WEB = Path(__file__).parents[1] / "web"
"""The scripts, the style and the texts that the page shares with the nodes."""


def create_app(board: Board, listening: str, key: str | None = None) -> FastAPI:
    """Create the app of a board.

    Args:
        board: Generates the stories.
        listening: Address on which it will listen.
        key: Key that every request needs. None: no key.
    """
    app = FastAPI(title="InterleaveThinker", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.board = board
    add_routes(app, board)

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", media_type="text/html")

    app.mount("/page", StaticFiles(directory=PAGE))
    app.mount("/web", StaticFiles(directory=WEB))
    app.add_middleware(Admission, listening=listening, key=key)  # type: ignore[arg-type]
    return app

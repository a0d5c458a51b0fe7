"""The pack's routes on the host's server, with JSON input and output through pydantic models.

A route is a plain function of a model. It runs in a thread, so reading a run folder never blocks the server.

Requests from pages of other sites are rejected here too: the host's own check is missing with
--enable-cors-header, and accepts every origin unless it is asked by a loopback address. A body must be
declared as JSON, which an HTML form cannot do. If ComfyUI listens on this machine only, it must also be
called by a name of this machine or an IP address, since any other name may have been made to resolve to it by
a page (DNS rebinding). If it listens for others, any name is accepted. Rejections are one line in `error`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from comfy.cli_args import args
from pydantic import BaseModel, ValidationError
from server import PromptServer

from ...backend.core.errors import InterleaveError, first_fault
from ...backend.core.remote.own_servers import from_own_page, may_be_called

MAX_BODY = 256 * 1024
KEPT = "private, max-age=31536000, immutable"


@dataclass(frozen=True)
class Content:
    """Response that is not JSON and never changes for the same request."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class Route:
    """A route: `answer` receives the validated query (GET) or body (POST)."""

    method: str
    path: str
    model: type[BaseModel]
    answer: Callable[[Any], BaseModel | Content]


def register_routes(routes: Sequence[Route]) -> None:
    """Add routes to the host's server, once: a second copy of the pack would otherwise stop the server."""
    server = getattr(PromptServer, "instance", None)
    if server is None:
        return
    taken = {(route.method, route.path) for route in server.routes if isinstance(route, web.RouteDef)}
    for route in routes:
        if (route.method, route.path) in taken:
            logging.warning(
                "InterleaveThinker is installed twice: %s belongs to the other copy. Remove one of them.",
                route.path,
            )
            continue
        server.routes.route(route.method, route.path)(_handler(route))


def _handler(route: Route) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.Response:
        allowed = str(args.enable_cors_header or "")
        if not from_own_page(request.headers, allowed):
            return _refused(
                403, "Only ComfyUI's own pages, and those named by --enable-cors-header, may request this."
            )
        host = request.headers.get("Host", "")
        if not may_be_called(host, args.listen, allowed):
            return _refused(
                403,
                f"ComfyUI listens on this machine only, but was called as {host[:100]!r}. If that is the "
                "name of a proxy, start ComfyUI with --enable-cors-header https://NAME, or with --listen.",
            )
        try:
            given = await _given(request, route)
            answer = await asyncio.to_thread(route.answer, given)
        except ValidationError as error:
            fault = first_fault(error)
            return _refused(400, f"{fault.place or 'request'}: {fault.reason}")
        except InterleaveError as error:
            return _refused(404 if request.method == "GET" else 400, str(error))
        if isinstance(answer, Content):
            headers = {"Cache-Control": KEPT}
            return web.Response(body=answer.data, content_type=answer.media_type, headers=headers)
        return web.json_response(text=answer.model_dump_json())

    return handle


async def _given(request: web.Request, route: Route) -> BaseModel:
    if request.method == "GET":
        return route.model.model_validate(dict(request.query))
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="The body must be application/json.")
    body = await request.content.read(MAX_BODY + 1)
    while len(body) <= MAX_BODY and not request.content.at_eof():
        body += await request.content.read(MAX_BODY + 1 - len(body))
    if len(body) > MAX_BODY:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY, len(body))
    return route.model.model_validate_json(body)


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)

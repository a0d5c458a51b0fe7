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
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from comfy.cli_args import args
from pydantic import BaseModel, ValidationError
from server import PromptServer

from ...backend.errors import InterleaveError
from ...backend.remote.called_name import called_name, is_address, is_this_machine

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
        if not _from_own_page(request):
            return _refused(
                403, "Only ComfyUI's own pages, and those named by --enable-cors-header, may request this."
            )
        host = request.headers.get("Host", "")
        if not _may_be_called(host):
            return _refused(
                403,
                f"ComfyUI listens on this machine only, but was called as {host[:100]!r}. If that is the "
                "name of a proxy, start ComfyUI with --enable-cors-header https://NAME, or with --listen.",
            )
        try:
            given = await _given(request, route)
            answer = await asyncio.to_thread(route.answer, given)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(str(part) for part in fault["loc"])
            return _refused(400, f"{place or 'request'}: {fault['msg']}")
        except InterleaveError as error:
            return _refused(404 if request.method == "GET" else 400, str(error))
        if isinstance(answer, Content):
            headers = {"Cache-Control": KEPT}
            return web.Response(body=answer.data, content_type=answer.media_type, headers=headers)
        return web.json_response(text=answer.model_dump_json())

    return handle


def _may_be_called(host: str) -> bool:
    """Return whether the server may be called by the name in this Host header."""
    if not all(is_this_machine(address.strip()) for address in args.listen.split(",")):
        return True
    try:
        name = called_name(host)
        named = urllib.parse.urlsplit(str(args.enable_cors_header or "")).hostname
    except ValueError:
        return False
    return is_this_machine(name) or is_address(name) or name == named


def _from_own_page(request: web.Request) -> bool:
    """Return whether the request comes from this server's page, an allowed page, or a program."""
    origin = request.headers.get("Origin", "")
    allowed = str(args.enable_cors_header or "")
    if allowed and allowed != "*" and origin == allowed:
        return True
    if request.headers.get("Sec-Fetch-Site", "") == "cross-site":
        return False
    if not origin:
        return True
    # A proxy may have put its own name into Host; pages cannot set the other header without permission.
    hosts = [request.headers.get(name, "") for name in ("Host", "X-Forwarded-Host")]
    return any(_same_host(origin, host.strip()) for host in hosts)


def _same_host(origin: str, host: str) -> bool:
    try:
        asking, asked = urllib.parse.urlsplit(origin), urllib.parse.urlsplit(f"//{host}")
        if not asking.hostname or asking.hostname != asked.hostname:
            return False
        # Some browsers and proxies omit a port; the host's own check accepts that.
        return None in (asking.port, asked.port) or asking.port == asked.port
    except ValueError:
        return False


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

"""Checks a request before it reaches a route: API key and origin, and size and speed of its body.

This is ASGI middleware around the app, so it applies to every route. The key is checked first, before a byte
of the body is read. A body is limited in bytes and seconds while it arrives, alone and together with all
others. Pages of other sites that are open in a browser are rejected: a service on this machine has no key,
and they could otherwise use it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

from ...backend.core.remote.own_servers import called_name, is_this_machine
from ..front import Front, RequestMemory
from ..pool import ServiceError
from ..settings import MIB
from .bodies import error_body, error_headers

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/", "/docs", "/openapi.json", "/health", "/ready", "/favicon.ico")
"""Paths that need no API key: for load balancers, and the documentation."""
WITH_BODY = ("POST", "PUT", "PATCH")
SEEN = "interleave"
"""Key in a connection's scope for the request's share of the memory."""
LINGER_SECONDS = 5.0
LINGER_BYTES = 256 * MIB


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request announces a body."""
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b" 0") != b""


class Forbidden(ServiceError):
    """The request comes from a page of another site."""

    status = 403


class NoKey(ServiceError):
    """The API key is missing or wrong."""

    status = 401


class BodyTooLarge(ServiceError):
    """The body exceeds the maximum size."""

    status = 413


class BodyTooSlow(ServiceError):
    """The body did not arrive in time."""

    status = 408


class RequestLimitsMiddleware:
    """The app behind its limits.

    Args:
        app: The app.
        front: What the routes share.
        key: API key. None allows every client.
        local_only: Whether to reject clients that use another host name than this machine's, if there is no
            key.
    """

    def __init__(self, app: App, front: Front, key: str | None, local_only: bool) -> None:
        self._app, self._front = app, front
        self._key = key.encode() if key else None
        self._local_only = local_only and key is None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI specifies."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        body = _Body(receive, self._front)
        scope[SEEN] = body.share
        # HEAD is answered like GET, without the body.
        routed = scope if scope["method"] != "HEAD" else {**scope, "method": "GET"}

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                taken = scope["method"] in WITH_BODY
                if (taken and not body.whole) or (not taken and has_body(headers)):
                    # The rest of the body would be read as the next request.
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            elif scope["method"] == "HEAD":
                message["body"] = b""
            await send(message)

        try:
            self._check(scope, headers)
            if scope["method"] not in WITH_BODY:
                await self._app(routed, receive, counted)
                return
            self._front.check_open()
            body.check_length(headers.get(b"content-length", b""))
            async with AsyncExitStack() as shares:
                # Counted only once its body has arrived: a slow client must not use up the share of others
                # behind the same address.
                share = self._front.clients.place(_client(scope), self._front.too_many)
                body.begin(lambda: shares.enter_async_context(share))
                await self._app(routed, body.receive, counted)
        except ServiceError as error:
            await _refuse(scope["path"], error, body, counted)
        finally:
            body.release()

    def _check(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        try:
            called, page = called_name(host), urlsplit(origin).netloc
        except ValueError as error:
            raise Forbidden(f"Host or Origin is not a valid address ({error}).") from error
        if self._local_only and not is_this_machine(called):
            raise Forbidden(
                f"This service accepts requests of this machine only, but was called as {host[:100]!r}.",
                "Start it with an API key (--key-env) or with --open.",
            )
        if origin and page != host:
            raise Forbidden(f"Pages of {origin[:100]!r} are not allowed to use this service.")
        if self._key is None or scope["path"] in OPEN_PATHS:
            return
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._key):
            raise NoKey("This service requires an API key.", "Send the header Authorization: Bearer KEY.")


class _Body:
    """A body as it arrives, limited in bytes, in seconds, and in the memory of all bodies together."""

    def __init__(self, receive: Receive, front: Front) -> None:
        self._receive, self._front = receive, front
        self._most = front.settings.max_body * MIB
        self._until = 0.0
        self._when_whole: Callable[[], Awaitable[None]] | None = None
        self.share = RequestMemory(front.held)
        self._bytes, self.whole = 0, False

    def check_length(self, announced: bytes) -> None:
        """Raise BodyTooLarge if the announced length is too large, before the body is read."""
        if announced.isdigit() and int(announced) > self._most:
            raise self._too_large()

    def begin(self, when_whole: Callable[[], Awaitable[None]]) -> None:
        """Start the time limit. `when_whole` is called once the complete body has arrived."""
        self._when_whole = when_whole
        self._until = time.monotonic() + self._front.settings.body_seconds

    async def receive(self) -> Message:
        """Return the next part of the body.

        Raises:
            BodyTooLarge: The body exceeds the maximum size.
            BodyTooSlow: The body did not arrive in time.
            Busy: Not enough memory is left.
            TooManyRequests: The client has too many concurrent requests.
        """
        if self.whole:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._until - time.monotonic()))
        except asyncio.TimeoutError as error:
            raise BodyTooSlow(
                f"The body did not arrive within {self._front.settings.body_seconds:g} s."
            ) from error
        size = len(message.get("body", b""))
        self.whole = not message.get("more_body", False)
        self._bytes += size
        if self._bytes > self._most:
            await self.discard()
            raise self._too_large()
        self.share.take(size)
        if self.whole and self._when_whole is not None and message["type"] == "http.request":
            await self._when_whole()
        return message

    async def discard(self) -> None:
        """Read the rest for a while, because a client that is still sending would not read the answer."""
        until, left = time.monotonic() + LINGER_SECONDS, LINGER_BYTES
        while not self.whole and left > 0 and (seconds := until - time.monotonic()) > 0:
            try:
                message = await asyncio.wait_for(self._receive(), seconds)
            except asyncio.TimeoutError:
                return
            self.whole = message["type"] == "http.disconnect" or not message.get("more_body", False)
            left -= len(message.get("body", b""))

    def release(self) -> None:
        """Release the memory of the answered request."""
        self.share.give_back()

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body is larger than {self._front.settings.max_body} MiB, the maximum.")


async def _refuse(path: str, error: ServiceError, body: _Body, send: Send) -> None:
    data = json.dumps(error_body(path, error)).encode()
    headers = {
        **error_headers(error),
        "content-type": "application/json",
        "content-length": str(len(data)),
    }
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": data, "more_body": True})
    if isinstance(error, BodyTooLarge):
        await body.discard()
    await send({"type": "http.response.body", "body": b""})


def _client(scope: Any) -> str:
    return scope["client"][0] if scope.get("client") else ""

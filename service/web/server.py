"""Runs an app on its ports until it is told to end.

On the first signal it rejects new requests and finishes current ones for up to `--grace` seconds. Only then
are its sockets closed. uvicorn alone would close them at once, which looks to load balancers like a dead
machine. A second signal ends it immediately. uvicorn limits the number of connections and the time that one
may be idle; the time for a header and for reading an answer is limited here.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...backend.core.errors import SettingsError
from ...backend.core.remote.own_servers import connections_allowed
from ..settings import ServiceSettings

LOG = logging.getLogger("interleave_thinker.service")
BACKLOG = 1024
KEEP_ALIVE_SECONDS = 75
ANSWER_SECONDS = 300.0
"""Seconds in which a client must have read an answer."""
LAST_ANSWERS_SECONDS = 5
LOOKED_EVERY = 0.05


async def _nothing() -> None:
    """Close nothing."""


@dataclass(frozen=True)
class Work:
    """What a server needs to know about the work of its app.

    Attributes:
        drain: Accepts no further work. Called in the event loop on the first signal.
        under_way: Returns the number of requests that are still being processed.
        close: Ends the workers, after the last of these requests or `--grace` seconds.
        hopeless: Returns the reason once no work can ever be done, which ends the server.
    """

    drain: Callable[[], None]
    under_way: Callable[[], int]
    close: Callable[[], Awaitable[None]] = _nothing
    hopeless: Callable[[], str] = str


def run_service(
    app: FastAPI,
    settings: ServiceSettings,
    ports: Sequence[int],
    ready: Callable[[list[str]], None],
    work: Work,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        app: The app.
        settings: Its settings.
        ports: Ports to listen on.
        ready: Called with the addresses once they accept connections.
        work: The app's work, which is finished first.

    Raises:
        SettingsError: A port is in use, a certificate is invalid, or no model can be loaded.
    """
    with ExitStack() as closing:
        sockets = [closing.enter_context(_listening(settings.host, port)) for port in ports]
        config = server_config(
            app, settings, timeout_graceful_shutdown=LAST_ANSWERS_SECONDS, **_tls(settings)
        )
        try:
            config.load()
        except OSError as error:  # ssl.SSLError is a subclass
            raise SettingsError(f"Cannot use the certificate ({error}).") from error
        scheme = "https" if settings.certificate else "http"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        ready([f"{scheme}://{host}:{one.getsockname()[1]}" for one in sockets])
        DrainingServer(config, work, settings.grace).run(sockets=sockets)
    if reason := work.hopeless():
        raise SettingsError(f"No model can be loaded: {reason}", "Correct the model's settings and restart.")


def server_config(app: FastAPI, settings: ServiceSettings, **more: Any) -> uvicorn.Config:
    """Return uvicorn's configuration with the limits of the settings."""
    return uvicorn.Config(
        app,
        http=partial(PatientProtocol, settings.header_seconds),  # type: ignore[arg-type] - a class with arguments
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        limit_concurrency=connections_allowed(settings.connections),
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        backlog=BACKLOG,
        **more,
    )


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, which closes a connection whose client is too slow.

    It uses uvicorn's `conn` and `transport`. A client may take `header_seconds` for a header.
    """

    def __init__(self, header_seconds: float, **given: Any) -> None:
        super().__init__(**given)
        self._header_seconds = header_seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._answer_waits = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Override of uvicorn's method: begins the time for a header."""
        super().connection_made(transport)
        self._expect(self._header_seconds)

    def data_received(self, data: bytes) -> None:
        """Override of uvicorn's method: ends the time for a header with its last line."""
        super().data_received(data)
        if self._answer_waits:
            return  # what the client sends does not replace what it has to read
        if self.conn.their_state is not h11.IDLE:
            self._expect(None)
        elif self._deadline is None:
            self._expect(self._header_seconds)

    def pause_writing(self) -> None:
        """Override of uvicorn's method: the client reads more slowly than the answer is written."""
        super().pause_writing()
        self._answer_waits = True
        self._expect(ANSWER_SECONDS)

    def resume_writing(self) -> None:
        """Override of uvicorn's method: the client has caught up."""
        super().resume_writing()
        self._answer_waits = False
        self._expect(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Override of uvicorn's method: ends the time limit."""
        self._expect(None)
        super().connection_lost(exc)

    def _expect(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class DrainingServer(uvicorn.Server):
    """A server that ends in two steps: no new requests, then the end."""

    def __init__(self, config: uvicorn.Config, work: Work, grace: float) -> None:
        super().__init__(config)
        self._work, self._grace = work, grace
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None
        self._told = False

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Override of uvicorn's method: ends if there is nothing to hope for."""
        self._loop = asyncio.get_running_loop()
        watching = asyncio.ensure_future(self._end_if_hopeless())
        try:
            await super().serve(sockets)
        finally:
            watching.cancel()

    async def _end_if_hopeless(self) -> None:
        while not self._work.hopeless():
            await asyncio.sleep(LOOKED_EVERY)
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: the first one drains, the second one ends."""
        if self._told or self._loop is None:
            self.should_exit = self.force_exit = True
            return
        self._told = True
        LOG.info("%s: finishing current requests.", signal.Signals(sig).name)
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._draining = asyncio.ensure_future(self._drained())

    async def _drained(self) -> None:
        try:
            self._work.drain()
            until = time.monotonic() + self._grace
            while self._work.under_way() and time.monotonic() < until and not self.should_exit:
                await asyncio.sleep(LOOKED_EVERY)
            # Waiting requests are answered that the service is shutting down, instead of a closed connection.
            await self._work.close()
        finally:
            self.should_exit = True


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        one.listen(BACKLOG)
    except (OSError, OverflowError, TypeError, ValueError) as error:  # the last two: an invalid host name
        one.close()
        raise SettingsError(
            f"The service cannot listen on {host}:{port} ({error}).", "Choose another --port or --host."
        ) from error
    return one


def _tls(settings: ServiceSettings) -> dict[str, Any]:
    if settings.certificate is None:
        if settings.certificate_key is not None:
            raise SettingsError("--certificate-key requires --certificate.")
        return {}
    for path in (settings.certificate, settings.certificate_key):
        if path is not None and not Path(path).is_file():
            raise SettingsError(f"The certificate or key file {path!r} does not exist.")
    return {"ssl_certfile": settings.certificate, "ssl_keyfile": settings.certificate_key}

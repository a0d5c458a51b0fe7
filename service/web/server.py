"""Runs the app on its ports until it is told to end.

On the first signal it rejects new requests with 503 and finishes current ones for up to `--grace` seconds.
Only then are its sockets closed. uvicorn alone would close them at once, which looks to load balancers like a
dead machine. A second signal ends it immediately.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from ...backend.errors import SettingsError
from ...backend.remote.own_servers import Connections, connections_allowed
from ..settings import ServiceSettings
from .listener import ConnectionListener

LOG = logging.getLogger("interleave_thinker.service")
BACKLOG = 4096
KEEP_ALIVE_SECONDS = 75
LAST_ANSWERS_SECONDS = 5
LOOKED_EVERY = 0.05


def run_service(
    app: FastAPI,
    settings: ServiceSettings,
    ports: Sequence[int],
    ready: Callable[[list[str]], None],
    hopeless: Callable[[], str] = str,
    leaving: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        app: The app.
        settings: Its settings.
        ports: Ports to listen on.
        ready: Called with the addresses once they accept connections.
        hopeless: Returns the reason once no model can be loaded any more, which ends the service.
        leaving: Called in another thread on the first signal, while the ports are still open.

    Raises:
        SettingsError: A port is in use, a certificate is invalid, or no model can be loaded.
    """
    with ExitStack() as closing:
        sockets = [closing.enter_context(_listening(settings.host, port)) for port in ports]
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
            backlog=BACKLOG,
            **_tls(settings),
        )
        try:
            config.load()
        except OSError as error:  # ssl.SSLError is a subclass
            raise SettingsError(f"Cannot use the certificate ({error}).") from error
        scheme = "https" if settings.certificate else "http"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        ready([f"{scheme}://{host}:{one.getsockname()[1]}" for one in sockets])
        DrainingServer(config, app.state.front, settings, hopeless, leaving).run(sockets=sockets)
    if reason := hopeless():
        raise SettingsError(f"No model can be loaded: {reason}", "Correct the model's settings and restart.")


class DrainingServer(uvicorn.Server):
    """A server with limited connections that ends in two steps: no new requests, then the end."""

    def __init__(
        self,
        config: uvicorn.Config,
        front: Any,
        settings: ServiceSettings,
        hopeless: Callable[[], str] = str,
        leaving: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._hopeless, self._leaving = hopeless, leaving
        self._front, self._grace = front, settings.grace
        connections = Connections(connections_allowed(settings.connections))
        self._listening = ConnectionListener(self, connections, settings.header_seconds)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None
        self._told = False

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Override of uvicorn's method: remembers the event loop."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Override of uvicorn's method: accepts connections within limits."""
        await super().startup(sockets=[])
        if not self.should_exit:
            self._listening.start(sockets or [])
            self._watching = asyncio.ensure_future(self._end_if_hopeless())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Override of uvicorn's method: stops accepting connections."""
        self._listening.end()
        self._watching.cancel()
        await super().shutdown(sockets)

    async def _end_if_hopeless(self) -> None:
        while not self._hopeless():
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
        self._front.close()
        await asyncio.to_thread(self._leaving)
        until = time.monotonic() + self._grace
        while self._front.admission.under_way and time.monotonic() < until and not self.should_exit:
            await asyncio.sleep(LOOKED_EVERY)
        # Waiting requests get an answer that the service is shutting down, instead of a closed connection.
        await self._front.pool.close()
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

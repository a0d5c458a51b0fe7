"""Accepts the service's connections up to a limit, and closes those whose client is too slow.

uvicorn limits neither the number of connections nor the time to receive a header, and its event loop logs
each connection that cannot be accepted. Connections are therefore accepted here, and a subclass of uvicorn's
HTTP/1.1 protocol reports after each event whether the server or the client has to act next. It uses the
arguments of uvicorn's `H11Protocol`, its `conn` and its `on_response_complete`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...backend.remote.own_servers import Connections

LOG = logging.getLogger("interleave_thinker.service")
ANSWER_SECONDS = 300.0
"""Seconds in which a client must have read an answer."""
LOOKED_EVERY = 0.02
PAUSE = 1.0
"""Seconds until the next attempt after a connection could not be accepted."""


class WatchedProtocol(H11Protocol):
    """uvicorn's protocol for one socket, which reports to `connections` when it waits for its client."""

    def __init__(
        self, connection: socket.socket, connections: Connections, header_seconds: float, **given: Any
    ) -> None:
        super().__init__(**given)
        self._connection, self._counted = connection, connections
        self._header_seconds = header_seconds
        # The time for the header began when the connection was accepted.
        self._turn = "header"

    def connection_lost(self, exc: Exception | None) -> None:
        """Override of uvicorn's method: removes the connection."""
        self._counted.remove(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Override of uvicorn's method: reports whose turn it is."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Override of uvicorn's method: reports whose turn it is."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Override of uvicorn's method: the client reads more slowly than the answer is written."""
        super().pause_writing()
        self._turn = "answer"
        self._counted.waits(self._connection, ANSWER_SECONDS)

    def resume_writing(self) -> None:
        """Override of uvicorn's method: the client has caught up."""
        super().resume_writing()
        self._turn = ""
        self._note()

    def _note(self) -> None:
        turn = self._whose_turn()
        if turn == self._turn or self._turn == "answer":
            return
        self._turn = turn
        if turn == "server":
            self._counted.works(self._connection)
        else:
            # uvicorn itself ends idle connections, and the body limits end slow bodies.
            seconds = {"header": self._header_seconds, "answer": ANSWER_SECONDS}.get(turn, math.inf)
            self._counted.waits(self._connection, seconds)

    def _whose_turn(self) -> str:
        if self.transport.is_closing():
            # The connection stays open until the client has read the rest of its last answer.
            return "answer"
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        if self.conn.their_state is not h11.IDLE:
            return "server"
        if self.conn.trailing_data[0] or self._turn == "header":
            return "header"
        return "idle"


class ConnectionListener:
    """Accepts connections for a uvicorn server, from `start` to `end`."""

    def __init__(self, server: uvicorn.Server, connections: Connections, header_seconds: float) -> None:
        self._server, self._connections = server, connections
        self._header_seconds = header_seconds
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, listeners: list[socket.socket]) -> None:
        """Start to accept connections. The server must have started."""
        for one in listeners:
            one.setblocking(False)
            self._keep(asyncio.ensure_future(self._accept(one)))
        self._keep(asyncio.ensure_future(self._close_late()))

    def end(self) -> None:
        """Stop to accept connections."""
        for task in self._tasks:
            task.cancel()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._connections.make_room():
                await asyncio.sleep(LOOKED_EVERY)
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                LOG.warning("Cannot accept a connection (%s).", error)
                await asyncio.sleep(PAUSE)
                continue
            self._connections.waits(connection, self._header_seconds)
            self._keep(asyncio.ensure_future(self._begin(connection)))
            # sock_accept does not yield to other tasks if a connection is ready.
            await asyncio.sleep(0)

    async def _begin(self, connection: socket.socket) -> None:
        loop, config = asyncio.get_running_loop(), self._server.config

        def protocol() -> WatchedProtocol:
            return WatchedProtocol(
                connection,
                self._connections,
                self._header_seconds,
                config=config,
                server_state=self._server.server_state,
                app_state=self._server.lifespan.state,
                _loop=loop,
            )

        try:
            # The limits of connections also apply to a TLS handshake.
            await loop.connect_accepted_socket(protocol, connection, ssl=config.ssl)
        except OSError:  # the client hung up, or its handshake failed
            self._connections.remove(connection)
            connection.close()

    async def _close_late(self) -> None:
        while True:
            await asyncio.sleep(LOOKED_EVERY)
            self._connections.close_late()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

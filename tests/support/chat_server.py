"""A small chat server for tests: a real HTTP server with the OpenAI protocol and scripted answers."""

from __future__ import annotations

import json
import math
import re
import time
from contextlib import AbstractContextManager
from threading import Event
from typing import Any

from .fake_server import FakeHandler, FakeServer

JSON = {"content-type": "application/json"}


class _Handler(FakeHandler):
    def do_POST(self) -> None:
        body = self.body()
        if self.server.silent_seconds:
            self._be_silent()
        elif not self._fail() and not self._send_fixed():
            self._reply(body)

    def _fail(self) -> bool:
        """Send the next failure; returns whether there was one."""
        server = self.server
        if server.dies_after is not None and len(server.requests) > server.dies_after:
            if server.dies_with:
                self.send(server.dies_with, b"it died")
            else:
                self.close_connection = True
            return True
        if server.busy_seconds:
            now = time.monotonic()
            server.busy_until = server.busy_until or now + server.busy_seconds
            if now < server.busy_until:
                server.refused += 1
                # Two timers can differ by a tick.
                self.send(429, b"slow down", {"retry-after": str(math.ceil(server.busy_seconds))})
                return True
        return self.fault()

    def _send_fixed(self) -> bool:
        """Send the answer given as bytes (`raw`) or `events`; returns whether there is one."""
        if self.path != "/v1/chat/completions":
            self.send(404, b"no such page")
        elif self.server.raw is not None:
            self.send(200, self.server.raw, JSON)
        elif self.server.events is not None:
            self._begin_stream()
            for data in self.server.events:
                self._event(data)
        else:
            return False
        return True

    def _reply(self, body: dict[str, Any]) -> None:
        """Send the next text, whole or token by token as requested."""
        if self.server.script:
            self.server.text = self.server.script.pop(0)
        tokens = re.findall(r"\s*\w+|\s*\W", self.server.text)
        wanted = bool(body.get("logprobs")) and self.server.has_logprobs
        if body["stream"] and self.server.streams:
            self._stream(tokens, wanted)
            return
        thought = dict([self.server.reasoning]) if self.server.reasoning is not None else {}
        choice = {
            "message": {"role": "assistant", "content": self.server.text, **thought},
            "finish_reason": self.server.finish,
        }
        if wanted:
            choice["logprobs"] = {"content": [self._token(token) for token in tokens]}
        reply = {"choices": [choice], "usage": {"completion_tokens": len(tokens), **self.server.usage}}
        self.send(200, reply, JSON)

    def _stream(self, tokens: list[str], wanted: bool) -> None:
        self._begin_stream()
        if self.server.reasoning is not None:
            name, thought = self.server.reasoning
            for token in re.findall(r"\s*\S+", thought):
                self._event(json.dumps({"choices": [{"delta": {name: token}, "finish_reason": None}]}))
        for token in tokens:
            choice = {"delta": {"content": token}, "finish_reason": None}
            if wanted:
                choice["logprobs"] = {"content": [self._token(token)]}
            self._event(json.dumps({"choices": [choice]}))
            self.server.sent += 1
        self._event(json.dumps({"choices": [{"delta": {}, "finish_reason": self.server.finish}]}))
        usage = {"completion_tokens": len(tokens), **self.server.usage}
        self._event(json.dumps({"choices": [], "usage": usage}))
        self._event("[DONE]")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.end_headers()

    def _be_silent(self) -> None:
        """Stay silent until the time is over or the client hangs up, which is recorded."""
        self.connection.settimeout(self.server.silent_seconds)
        try:
            if not self.connection.recv(1):
                self.server.hung_up.set()
        except OSError as error:
            if not isinstance(error, TimeoutError):
                self.server.hung_up.set()

    def _token(self, token: str) -> dict[str, Any]:
        top = [
            {"token": name, "logprob": math.log(p) if p else -9999.0} for name, p in self.server.top.items()
        ]
        return {"token": token, "logprob": -0.1, "top_logprobs": top}

    def _event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())
        self.wfile.flush()


class ChatServer(FakeServer):
    """Answers every request with `text`, token by token.

    It stays silent for `silent_seconds`.
    """

    handler = _Handler

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.script: list[str] = []
        """Texts of the first answers, in order; after them `text` is used."""
        self.finish = "stop"
        self.usage: dict[str, Any] = {}
        """Further fields of the token counts."""
        self.streams = True
        self.has_logprobs = True
        self.reasoning: tuple[str, str] | None = None
        """Field that separates the reasoning, and the reasoning."""
        self.top = {"true": 0.8, " True": 0.1, "false": 0.1, "maybe": 0.0}
        self.busy_seconds = 0.0
        """Seconds from the first request for which it answers 429, with this in Retry-After."""
        self.busy_until = 0.0
        self.refused = 0
        """Number of requests rejected as too busy."""
        self.dies_after: int | None = None
        """Replies after which every request gets `dies_with`: a status, or 0 for a closed connection."""
        self.dies_with = 0
        self.raw: bytes | None = None
        self.events: list[str] | None = None
        """Data of a stream's events, unchanged."""
        self.silent_seconds = 0.0
        self.hung_up = Event()
        self.sent = 0

    @property
    def spec(self) -> str:
        return f"tiny@http://127.0.0.1:{self.server_port}/v1"


def chat_server(text: str) -> AbstractContextManager[ChatServer]:
    """Run the server in a thread until the block ends."""
    return ChatServer(text).running()

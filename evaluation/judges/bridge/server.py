"""The bridge: a small HTTP server of this machine that speaks what evaluators speak and asks a judge.

Decisions. It is Python's own server with a thread a connection: scoring then needs nothing that is not there,
and judges are asked from threads anyway. It listens to this machine alone, refuses pages of a browser, and
may want a token, so that nobody else spends somebody's judge. Nothing of a request is logged; what goes wrong
is one line in the form of the client's protocol.
"""

from __future__ import annotations

import hmac
import json
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError

from ....backend.errors import ChatError, InterleaveError, SettingsError
from ....backend.files.bounded_reader import parse_json
from ....backend.remote.connections import Connections, connections_allowed
from ....backend.remote.server import THIS_MACHINE
from ....backend.shown_text import one_line
from ..judge import BenchmarkJudge
from . import gemini_form, openai_form
from .judge_client import JudgeClient, JudgeUnavailable
from .request import BadRequest

MAX_BODY = 256 * 1024 * 1024
SOCKET_SECONDS = 60.0
SENDING_SECONDS = 5.0
MAX_LENGTH = len(str(MAX_BODY))
PARALLEL = 16
MAX_CONNECTIONS = 512
"""Connections at a time, each with a thread of its own."""
PAUSE = 0.02
"""Seconds until the next look for room, or for a file that a connection needs."""
GEMINI = re.compile(r"/v1(?:alpha|beta\d*)?/models/([^/:]{1,200}):(generateContent|streamGenerateContent)")
NATIVE = "/native"
OPENAI = "/chat/completions"
MODELS = ("/v1/models", "/models")


class HttpRefusal(InterleaveError):
    """A request that is not answered, with its status."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status = status


class JudgeBridge:
    """A judge at `http://127.0.0.1:PORT`, from `open` to `close`. `token`: what clients have to show as their
    key, empty for anything."""

    def __init__(self, judge: BenchmarkJudge, parallel: int = PARALLEL, token: str = "") -> None:
        self.judge, self.client = judge, JudgeClient(judge, parallel)
        self._token = token
        self._server: _Server | None = None

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[str]:
        """Serve in threads of their own; gives the address. Port 0 is any that is free. Raises
        SettingsError."""
        try:
            server = _Server(("127.0.0.1", port), partial(_Handler, self))
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"The bridge cannot listen at port {port} ({error}).", "Choose another --port."
            ) from error
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            try:
                server.shutdown()
                # A try that has begun ends at the judge's deadline by itself.
                self.client.finish(self.judge.deadline + SENDING_SECONDS)
            finally:
                server.server_close()

    def admits(self, given: Iterable[str]) -> bool:
        """Whether one of these is the token."""
        return not self._token or any(
            hmac.compare_digest(one.encode(), self._token.encode()) for one in given
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # An evaluator opens a connection for each of its workers at the same moment.
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        super().__init__(address, handler)
        self.connections = Connections(connections_allowed(MAX_CONNECTIONS))

    def get_request(self) -> tuple[Any, Any]:
        """As the library's; OSError if there is no room for a connection yet."""
        try:
            if not self.connections.make_room():
                raise BlockingIOError("All connections are at work.")
            connection, address = super().get_request()
        except OSError:
            time.sleep(PAUSE)
            raise
        self.connections.waits(connection, SOCKET_SECONDS)
        return connection, address

    def service_actions(self) -> None:
        """Called between two looks for connections."""
        self.connections.close_late()

    def shutdown_request(self, request: Any) -> None:
        """As the library's."""
        self.connections.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are nothing to write about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "judge-bridge", ""
    timeout = SOCKET_SECONDS

    def __init__(self, bridge: JudgeBridge, *values: Any) -> None:
        self._bridge = bridge
        super().__init__(*values)

    def log_message(self, format: str, *values: Any) -> None:
        """Nothing of a request is logged."""

    def handle_one_request(self) -> None:
        """Read a request within its time, and answer it."""
        self.server.connections.waits(self.connection, SOCKET_SECONDS)
        super().handle_one_request()

    def do_GET(self) -> None:
        self.server.connections.works(self.connection)
        path = self.path.partition("?")[0]
        if path == "/health":
            trouble = self._bridge.client.trouble
            self._send(503 if trouble else 200, {"status": str(trouble) if trouble else "ok"})
        elif path in MODELS:
            name = self._bridge.judge.identity
            self._send(200, {"object": "list", "data": [{"id": name, "object": "model"}]})
        else:
            self._send(404, openai_form.error(404, f"There is no {path[:100]}."))

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        is_openai = path.endswith(OPENAI)
        form = openai_form if is_openai else gemini_form
        try:
            self._check()
            self.server.connections.waits(self.connection, SOCKET_SECONDS)
            body = self._body()
            self.server.connections.works(self.connection)
            with self._bridge.client.under_way():
                self._answer(path, body, is_openai)
        except HttpRefusal as error:
            # What is left of a body would be taken for the next request.
            self.close_connection = True
            self._send(error.status, form.error(error.status, str(error)))
        except (BadRequest, ValidationError) as error:
            self._send(400, form.error(400, _one_line(error)))
        except (ChatError, JudgeUnavailable) as error:
            self._send(
                503,
                form.error(503, str(error)),
                error.seconds if isinstance(error, JudgeUnavailable) else None,
            )
        except OSError:
            raise  # the client hung up
        except Exception as error:  # noqa: BLE001 - a boundary: silence would look like a broken network
            message = one_line(f"The bridge failed ({type(error).__name__}: {error}).")
            self._send(500, form.error(500, message))

    def _answer(self, path: str, body: bytes, is_openai: bool) -> None:
        client = self._bridge.client
        if is_openai:
            question = openai_form.OpenAIBody.model_validate(_value(body)).question()
            text = client.answer(question)
            if question.streamed:
                self._send_events(openai_form.events(question, text))
            else:
                self._send(200, openai_form.answer(question, text))
            return
        gemini = GEMINI.fullmatch(path)
        if gemini is None and path != NATIVE:
            raise HttpRefusal(
                404,
                f"There is no {path[:100]}.",
                f"Known: .../v1{OPENAI}, /v1beta/models/MODEL:generateContent, {NATIVE}.",
            )
        question = gemini_form.GeminiBody.model_validate(_value(body)).question(gemini[1] if gemini else "")
        text = client.answer(question)
        streamed = gemini[2] == "streamGenerateContent" if gemini else question.streamed
        if streamed:
            self._send_events(gemini_form.events(question, text, gemini is None))
        else:
            self._send(200, gemini_form.answer(question, text))

    def _check(self) -> None:
        try:
            host = urlsplit(f"//{self.headers.get('host', '')}").hostname
        except ValueError:
            host = None
        if host not in THIS_MACHINE or self.headers.get("origin"):
            raise HttpRefusal(403, "The bridge is for programs of this machine.")
        given = [self.headers.get("authorization", "").partition(" ")[2].strip()]
        given += [self.headers.get("x-goog-api-key", "")]
        given += parse_qs(self.path.partition("?")[2]).get("key", [])
        if not self._bridge.admits(given):
            raise HttpRefusal(401, "The bridge was shown another key than its own.")

    def _body(self) -> bytes:
        length = self.headers.get("content-length", "")
        if not length.isdecimal():
            raise HttpRefusal(411, "The length of the body has to be said first.")
        if len(length) > MAX_LENGTH or int(length) > MAX_BODY:
            raise HttpRefusal(413, f"The body has more than {MAX_BODY} bytes.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise HttpRefusal(400, "The body ended before its length.")
        return body

    def _send(self, status: int, content: dict[str, Any], seconds: float | None = None) -> None:
        """Answer; `seconds`: when the client may ask again."""
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if seconds is not None:
            self.send_header("retry-after", str(math.ceil(seconds)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self, events: Iterable[str]) -> None:
        data = "".join(events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _value(body: bytes) -> Any:
    return parse_json(body, BadRequest, "The JSON body")


def _one_line(error: BadRequest | ValidationError) -> str:
    if isinstance(error, BadRequest):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}"

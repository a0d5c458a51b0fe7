"""The bridge: a local HTTP server that speaks the evaluators' APIs and asks a judge.

It is Python's own server with one thread per connection, so scoring needs no further package; judges are
called from threads anyway. It listens on this machine only and rejects requests from web pages. It can
require a token, so that other users of the machine cannot use the judge. Requests are not logged; an error is
one line in the format of the client's API.
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
from ....backend.remote.addresses import THIS_MACHINE
from ....backend.remote.own_servers import Connections, connections_allowed
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
"""Maximum number of connections; each has a thread."""
PAUSE = 0.02
"""Seconds between checks for a free connection or file descriptor."""
GEMINI = re.compile(r"/v1(?:alpha|beta\d*)?/models/([^/:]{1,200}):(generateContent|streamGenerateContent)")
NATIVE = "/native"
OPENAI = "/chat/completions"
MODELS = ("/v1/models", "/models")


class HttpRefusal(InterleaveError):
    """A request that is rejected with an HTTP status."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status = status


class JudgeBridge:
    """A judge served at `http://127.0.0.1:PORT` while `serving` is active.

    Args:
        judge: The judge.
        parallel: Number of questions at a time.
        token: Key that clients must send; empty to accept any.
    """

    def __init__(self, judge: BenchmarkJudge, parallel: int = PARALLEL, token: str = "") -> None:
        self.judge, self.client = judge, JudgeClient(judge, parallel)
        self._token = token
        self._server: _Server | None = None

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[str]:
        """Serve in background threads.

        Args:
            port: Port; 0 chooses a free one.

        Yields:
            The URL.

        Raises:
            SettingsError: If the port cannot be used.
        """
        try:
            server = _Server(("127.0.0.1", port), partial(_Handler, self))
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"The judge bridge cannot listen on port {port}: {error}.", "Choose another --port."
            ) from error
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            try:
                server.shutdown()
                # A running attempt ends at the judge's deadline.
                self.client.finish(self.judge.deadline + SENDING_SECONDS)
            finally:
                server.server_close()

    def admits(self, given: Iterable[str]) -> bool:
        """Whether one of `given` is the token."""
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
        """Accept a connection, or raise OSError while there is no room for one."""
        try:
            if not self.connections.make_room():
                raise BlockingIOError("All connections are in use.")
            connection, address = super().get_request()
        except OSError:
            time.sleep(PAUSE)
            raise
        self.connections.waits(connection, SOCKET_SECONDS)
        return connection, address

    def service_actions(self) -> None:
        """Close late connections; called between checks for new ones."""
        self.connections.close_late()

    def shutdown_request(self, request: Any) -> None:
        """Forget and close a connection."""
        self.connections.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "judge-bridge", ""
    timeout = SOCKET_SECONDS

    def __init__(self, bridge: JudgeBridge, *values: Any) -> None:
        self._bridge = bridge
        super().__init__(*values)

    def log_message(self, format: str, *values: Any) -> None:
        """Do nothing: requests are not logged."""

    def handle_one_request(self) -> None:
        """Read a request within its time limit and answer it."""
        self.server.connections.waits(self.connection, SOCKET_SECONDS)
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer `/health` and the list of models."""
        self.server.connections.works(self.connection)
        path = self.path.partition("?")[0]
        if path == "/health":
            trouble = self._bridge.client.trouble
            self._send(503 if trouble else 200, {"status": str(trouble) if trouble else "ok"})
        elif path in MODELS:
            name = self._bridge.judge.identity
            self._send(200, {"object": "list", "data": [{"id": name, "object": "model"}]})
        else:
            self._send(404, openai_form.error(404, f"The path {path[:100]} does not exist."))

    def do_POST(self) -> None:
        """Answer a question in the API of its path."""
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
            # The rest of the body would be read as the next request.
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
            message = one_line(f"The judge bridge failed ({type(error).__name__}: {error}).")
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
                f"The path {path[:100]} does not exist.",
                f"Use .../v1{OPENAI}, /v1beta/models/MODEL:generateContent or {NATIVE}.",
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
            raise HttpRefusal(403, "The judge bridge only serves programs on this machine.")
        given = [self.headers.get("authorization", "").partition(" ")[2].strip()]
        given += [self.headers.get("x-goog-api-key", "")]
        given += parse_qs(self.path.partition("?")[2]).get("key", [])
        if not self._bridge.admits(given):
            raise HttpRefusal(
                401, "The key is not that of the judge bridge. Pass the key that was set when it was started."
            )

    def _body(self) -> bytes:
        length = self.headers.get("content-length", "")
        if not length.isdecimal():
            raise HttpRefusal(411, "The request has no content-length header. Send the length of the body.")
        if len(length) > MAX_LENGTH or int(length) > MAX_BODY:
            raise HttpRefusal(413, f"The body is larger than {MAX_BODY} bytes.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise HttpRefusal(400, "The body is shorter than its content-length.")
        return body

    def _send(self, status: int, content: dict[str, Any], seconds: float | None = None) -> None:
        """Send a JSON response. `seconds`: when the client can retry."""
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

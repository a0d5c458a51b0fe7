"""A server that misbehaves in every way: a real one on the loopback, with behaviors named in the path.

A behavior is a generator: bytes are sent, a number is a pause in seconds. Nothing runs longer than SECONDS,
and a client that hangs up ends it.
"""

from __future__ import annotations

import base64
import gzip
import io
import itertools
import json
import socket
import struct
import threading
import time
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from PIL import Image, PngImagePlugin

SECONDS = 60.0
MEGABYTE = bytes(1024 * 1024)
VERDICT = '<think>It is {}.</think><answer>{"previous_step_success": true, "refine_prompt": "x"}</answer>'
Sent = Iterator[bytes | float]


@dataclass(frozen=True)
class Asked:
    """One request: the path after the behavior's name, and the key that was sent."""

    path: str
    key: str
    port: int

    @property
    def chats(self) -> bool:
        return self.path.endswith("/chat/completions")


Behaviour = Callable[[Asked], Sent]


def head(
    kind: str = "application/json", status: str = "200 OK", *more: str, length: int | None = None
) -> bytes:
    """Return the beginning of an answer; without `length` it ends with the connection."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close", *more]
    lines += [] if length is None else [f"content-length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def whole(
    body: bytes | str | Any, kind: str = "application/json", status: str = "200 OK", *more: str
) -> bytes:
    """Return a complete answer."""
    if not isinstance(body, bytes | str):
        body = json.dumps(body)
    content = body if isinstance(body, bytes) else body.encode()
    return head(kind, status, *more, length=len(content)) + content


def event(text: str, **more: Any) -> bytes:
    choice = {"delta": {"content": text}, "finish_reason": None, **more}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


STREAM = "text/event-stream"
END = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def png(size: tuple[int, int] = (64, 64), info: dict[str, str] | None = None) -> bytes:
    notes = PngImagePlugin.PngInfo()
    for name, text in (info or {}).items():
        notes.add_text(name, text)
    buffer = io.BytesIO()
    Image.new("RGB", size, (200, 30, 30)).save(buffer, "PNG", pnginfo=notes)
    return buffer.getvalue()


def good(asked: Asked) -> bytes:
    """Return the answer of a well-behaved server."""
    if asked.chats:
        body: Any = {"choices": [{"message": {"content": VERDICT}, "finish_reason": "stop"}]}
    elif asked.path == "/health":
        body = {"model": "painter"}
    else:
        body = {"success": True, "edited_image": base64.b64encode(png()).decode()}
    return whole(body)


def says(asked: Asked, text: str) -> bytes:
    """Return a valid answer with this text wherever the protocol allows text."""
    if asked.chats:
        return whole({"choices": [{"message": {"content": VERDICT.replace("{}", text, 1)}}]})
    if asked.path == "/health":
        return whole({"model": text, "identity": text})
    return whole({"success": False, "error": text})


def sends(begin: bytes, again: bytes | None = None, pause: float = 0.0) -> Behaviour:
    """Return a behavior that sends a beginning, and then `again` for ever, with pauses in between."""

    def behave(asked: Asked) -> Sent:
        yield begin
        while again is not None:
            yield again
            if pause:
                yield pause

    return behave


def answers(made: Callable[[Asked], bytes]) -> Behaviour:
    """Return a behavior that sends one answer to the request."""

    def behave(asked: Asked) -> Sent:
        yield made(asked)

    return behave


def redirect(target: str, status: str = "302 Found") -> Behaviour:
    def made(asked: Asked) -> bytes:
        place = target.format(port=asked.port, path=asked.path, key=asked.key)
        return whole(b"", "text/plain", status, f"location: {place}")

    return answers(made)


def encoded(name: str, content: bytes) -> Behaviour:
    return sends(whole(content, "application/json", "200 OK", f"content-encoding: {name}"))


def bomb(layers: int = 1) -> bytes:
    content = gzip.compress(bytes(64 * 1024 * 1024), 9)
    for _ in range(layers - 1):
        content = gzip.compress(content, 9)
    return content


def body(content: bytes | str | Any, kind: str = "application/json", status: str = "200 OK") -> Behaviour:
    return sends(whole(content, kind, status))


def reply(**choice: Any) -> Behaviour:
    return body({"choices": [choice]})


def image(content: bytes | str) -> Behaviour:
    text = content if isinstance(content, str) else base64.b64encode(content).decode()
    answer = whole({"success": True, "edited_image": text})
    return answers(lambda asked: good(asked) if asked.path == "/health" else answer)


def claimed_png(width: int, height: int, data: bytes) -> bytes:
    """Return a PNG whose header claims this size."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def text_bomb() -> bytes:
    content = b"Comment\0\0" + zlib.compress(bytes(200 * 1024 * 1024), 9)
    plain = png()
    note = (
        struct.pack(">I", len(content)) + b"zTXt" + content + struct.pack(">I", zlib.crc32(b"zTXt" + content))
    )
    return plain[:33] + note + plain[33:]


# Echoes of the key

ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": lambda key: key,
    "the whole header": lambda key: f"Authorization: Bearer {key}",
    "in capitals": str.upper,
    "the beginning": lambda key: f"{key[: len(key) // 2]}***",
    "the end": lambda key: f"***{key[len(key) // 2 :]}",
    "in base64": lambda key: base64.b64encode(key.encode()).decode(),
    "the header in base64": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "a pair in url base64": lambda key: base64.urlsafe_b64encode(f"me:{key}!".encode()).decode(),
    "for a URL": lambda key: urllib.parse.quote(key, safe=""),
    "all for a URL": lambda key: "".join(f"%{ord(one):02x}" for one in key),
    "in JSON escapes": lambda key: "".join(f"\\u{ord(one):04x}" for one in key),
    "in HTML": lambda key: "".join(f"&#{ord(one)};" for one in key),
    "in hexadecimal": lambda key: key.encode().hex(),
    "twice": lambda key: key + key,
}


def echo_in_refusal(form: Callable[[str], str], status: str = "401 Unauthorized") -> Behaviour:
    return answers(lambda asked: whole(f"The key {form(asked.key)} is wrong", "text/plain", status))


def echo_in_stream(form: Callable[[str], str], size: int) -> Behaviour:
    """Send the text in pieces of `size` characters."""

    def behave(asked: Asked) -> Sent:
        yield head(STREAM)
        text = VERDICT.replace("{}", f"right, {form(asked.key)} and {form(asked.key)}", 1)
        for start in range(0, len(text), size):
            yield event(text[start : start + size])
        yield END

    return behave


NOISE = bytes(range(256)) * 40
DEEP = b'{"choices": ' + b"[" * 200_000
MANY = b'{"choices": [' + b"{}," * 2_000_000 + b"{}]}"


def top_heavy() -> bytes:
    top = json.dumps({"token": "a", "logprob": -1.0})
    token = '{"token": "a", "top_logprobs": [' + ", ".join([top] * 99) + "]}"
    return (
        '{"choices": [{"message": {"content": "x"}, "logprobs": {"content": ['
        + ", ".join([token] * 3_000)
        + "]}}]}"
    ).encode()


BEHAVIOURS: dict[str, Behaviour] = {
    "silent": sends(b"", b"", SECONDS),
    "hangs up": sends(b""),
    "slow headers": sends(b"HTTP/1.1 200 OK\r\n", b"x-slow: 1\r\n", 5.0),
    "slow body": sends(head(), b" ", 0.5),
    "slow stream": sends(head(STREAM), event("word "), 0.3),
    "1xx storm": sends(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 500),
    "endless status": sends(b"HTTP/1.1 200 ", b"A" * 65536),
    "long header": sends(head("application/json", "200 OK", "x-long: " + "y" * 2_000_000) + b"{}"),
    "endless body": sends(head(), MEGABYTE),
    "endless line": sends(head(STREAM) + b"data: ", b"x" * 65536),
    "endless lines": sends(head(STREAM), b"\n" * 65536),
    "endless words": sends(head(STREAM), event("word ") * 500),
    "endless chunks": sends(head("a/b", "200 OK", "transfer-encoding: chunked"), b"1\r\nx\r\n" * 5000),
    "endless refusal": sends(head("text/plain", "400 Bad Request"), b"no " * 20000),
    "busy for ever": sends(whole("busy", "text/plain", "429 Too Many Requests", "retry-after: 86400")),
    "broken off": sends(head(length=1000) + b'{"choices": ['),
    "broken stream": sends(head(STREAM) + event("<answer>{'previous_step_success': tr")),
    "broken chunk": sends(head(STREAM, "200 OK", "transfer-encoding: chunked") + b"40\r\ndata: {"),
    "noise": sends(NOISE),
    "terminal escapes": sends(b"\x1b]0;owned\x07\x1b[2J\r\n\r\n"),
    "status 999": sends(b"HTTP/1.1 999 Odd\r\n\r\n{}"),
    "negative length": sends(head(length=-5)),
    "two lengths": sends(head("a/b", "200 OK", "content-length: 5", length=2) + b"{}"),
    "bad chunk size": sends(head("a/b", "200 OK", "transfer-encoding: chunked") + b"zz\r\n{}"),
    "upgrade": sends(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
    "to a file": redirect("file:///etc/passwd"),
    "to itself": redirect("{path}"),
    "to another, 307": redirect("http://localhost:{port}/stolen", "307 Temporary Redirect"),
    "to a key": redirect("http://localhost:{port}/{key}"),
    "not modified": body(b"", status="304 Not Modified"),
    "gzip bomb": encoded("gzip", bomb()),
    "brotli": encoded("br", b"\x0b\x02\x80{}\x03"),
    "empty": body(b""),
    "web page": body("<html><body>Sign in\x1b[31m</body></html>", "text/html"),
    "stream of nothing": body("{}", STREAM),
    "stream called JSON": body(event("hello") + END),
    "bad UTF-8": body(b'{"choices": [{"message": {"content": "\xff\xfe\xc0"}}], "success": "\xff"}'),
    "NaN": body(b'{"choices": NaN, "success": NaN, "model": NaN}'),
    "digits": body(b'{"success": ' + b"9" * 100_000 + b"}"),
    "deep": body(DEEP),
    "many": body(MANY),
    "an error": body({"error": {"message": "no\x1b[2J such\nmodel"}, "success": False}),
    "wrong kinds": body({"choices": [{"message": {"content": 5}}], "success": [], "model": {}}),
    "lone surrogate": body(
        b'{"choices": [{"message": {"content": "\\ud800"}}], "success": false, "error": "\\ud800"}'
    ),
    "long text": reply(message={"content": "word " * 1_000_000}),
    "top-heavy": body(top_heavy()),
    "NaN logprob": body(
        b'{"choices": [{"message": {"content": "{\'success\': false}"}, "logprobs": {"content": '
        b'[{"token": "{\'success\':", "top_logprobs": []}, {"token": " false", "logprob": NaN, '
        b'"top_logprobs": '
        b'[{"token": "true", "logprob": NaN}, {"token": "false", "logprob": NaN}]}]}}]}'
    ),
    "endless tokens": body(
        {"choices": [{"message": {"content": VERDICT}}], "usage": {"completion_tokens": 10**30}}
    ),
    "image: claimed": image(claimed_png(60_000, 60_000, zlib.compress(b"\0" * 1000))),
    "image: broken off": image(png((256, 256))[:-200]),
    "image: zeros": image(png((7000, 7000))),
    "image: text bomb": image(text_bomb()),
    "image: eps": image(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n"),
    "image: noise": image(NOISE * 1000),
    "image: 120 MB": image("A" * 120_000_000),
    "image: one pixel": image(png((1, 1))),
    "echo: reason": answers(lambda asked: good(asked).replace(b"200 OK", f"200 {asked.key}".encode(), 1)),
    "echo: kind": answers(lambda asked: whole("no", f"text/{asked.key}", "400 Bad")),
    "echo: encoding": answers(
        lambda asked: whole("no", "text/plain", "200 OK", f"content-encoding: {asked.key}")
    ),
    "echo: bad status line": answers(lambda asked: f"Bearer {asked.key}\r\n\r\n".encode()),
    "echo: bad header": answers(lambda asked: f"HTTP/1.1 200 OK\r\nx{asked.key}\x01: 1\r\n\r\n".encode()),
    "echo: bad JSON": answers(lambda asked: whole('{"choices": ["' + asked.key)),
    "echo: wrong field": answers(
        lambda asked: whole({"choices": asked.key, "success": asked.key, "model": [asked.key]})
    ),
    "echo: double field": answers(lambda asked: whole(f'{{"{asked.key}": 1, "{asked.key}": 2}}')),
    "echo: image's note": lambda asked: image(png(info={"Comment": asked.key}))(asked),
    "echo: as an image": lambda asked: image(asked.key)(asked),
    **{
        f"echo {name}, words": answers(lambda asked, form=form: says(asked, form(asked.key)))
        for name, form in ECHOES.items()
    },
    **{f"echo {name}, refusal": echo_in_refusal(form) for name, form in ECHOES.items()},
    **{
        f"echo {name}, stream of {size}": echo_in_stream(form, size)
        for (name, form), size in zip(ECHOES.items(), itertools.cycle((1, 3, 10, 50)), strict=False)
    },
    "echo as it is, fault": echo_in_refusal(ECHOES["as it is"], "500 Broken"),
}


class HostileServer:
    """Listens on the loopback; `url(name)` selects a behavior.

    `stolen` are requests where none should arrive.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.stolen: list[str] = []
        self.names = list(BEHAVIOURS)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{self.names.index(name)}"

    def serve(self) -> None:
        """Serve until the listener is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def close(self) -> None:
        # Closing a listener does not end a waiting accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._answer(connection)
            except OSError:
                return

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(10.0)
        lines = _read_request(connection)
        number, _, path = lines[0].split(" ")[1].lstrip("/").partition("/")
        if not number.isdigit():
            self.stolen.append(lines[0])
            return
        keys = [line.split(" ")[-1] for line in lines if line.lower().startswith("authorization:")]
        asked = Asked(f"/{path}", keys[0] if keys else "no-key", self.port)
        until = time.monotonic() + SECONDS
        for part in BEHAVIOURS[self.names[int(number)]](asked):
            if time.monotonic() > until:
                return
            if isinstance(part, bytes):
                connection.sendall(part)
            elif _gone(connection, part):
                return


def _gone(connection: socket.socket, seconds: float) -> bool:
    """Return whether the client hung up within this time."""
    connection.settimeout(seconds)
    try:
        return not connection.recv(1)
    except TimeoutError:
        return False
    finally:
        connection.settimeout(10.0)


def _read_request(connection: socket.socket) -> list[str]:
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError
        received += part
    start, _, rest = received.partition(b"\r\n\r\n")
    lines = start.decode("latin-1").split("\r\n")
    length = next(
        (int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0
    )
    left = length - len(rest)
    while left > 0:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError
        left -= len(part)
    return lines


@contextmanager
def hostile_server() -> Iterator[HostileServer]:
    server = HostileServer()
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()

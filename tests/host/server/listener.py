"""A browser's socket without a browser: what the server sends to one client, with its size on the wire.

Written with the standard library, since the tests otherwise need no WebSocket client; only what a
server sends is understood (unmasked frames, RFC 6455), and it says the one thing that a real front end says
first.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
PREVIEW_WITH_METADATA = 4


@dataclass(frozen=True)
class Heard:
    """One message: its type (`binary`, whose kind is `data`), its content, and its size in bytes."""

    kind: str
    data: Any
    size: int


def shows(message: Heard, kind: str) -> bool:
    """Whether this is a message of the live view of this kind."""
    return message.kind == "interleave-thinker" and message.data["shown"]["kind"] == kind


def newest(messages: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The newest of every key, by the rule that a front end follows."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for message in sorted(messages, key=lambda one: one["seq"]):
        shown = message["shown"]
        found[shown["kind"], shown.get("step"), shown.get("attempt")] = shown
    return found


class Listener:
    """Collects what the server sends to a client id until it is closed."""

    def __init__(self, url: str, client: str = "tests") -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET /ws?clientId={client} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._file = self._socket.makefile("rb")
        while self._file.readline().strip():
            pass
        self._say({"type": "feature_flags", "data": {"supports_preview_metadata": True}})
        self.heard: list[Heard] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=10)

    def wait_for(self, wanted: Callable[[Heard], bool], seconds: float = 60.0) -> Heard:
        """Return the first matching message, among those received or later ones."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = next((message for message in list(self.heard) if wanted(message)), None)
            if found is not None:
                return found
            time.sleep(0.02)
        raise AssertionError(f"not heard within {seconds} s; last: {self.heard[-3:]}")

    def shown(self) -> list[Heard]:
        """The live view's own messages, once the prompt has succeeded."""
        self.wait_for(lambda message: message.kind == "execution_success")
        return [message for message in self.heard if message.kind == "interleave-thinker"]

    def _say(self, message: Any) -> None:
        data = json.dumps(message).encode()
        assert len(data) < 126
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
        self._socket.sendall(bytes([0x80 | TEXT, 0x80 | len(data)]) + mask + masked)

    def _listen(self) -> None:
        try:
            while True:
                opcode, payload, size = self._frame()
                if opcode == CLOSE:
                    return
                if opcode == TEXT:
                    message = json.loads(payload)
                    self.heard.append(Heard(message["type"], message.get("data"), size))
                elif opcode == BINARY:
                    kind = struct.unpack(">I", payload[:4])[0]
                    self.heard.append(Heard("binary", kind, size))
        except (OSError, ValueError, struct.error):
            return

    def _frame(self) -> tuple[int, bytes, int]:
        first, second = self._file.read(2)
        length, header = second & 0x7F, 2
        if length == 126:
            (length,), header = struct.unpack(">H", self._file.read(2)), 4
        elif length == 127:
            (length,), header = struct.unpack(">Q", self._file.read(8)), 10
        return first & 0x0F, self._file.read(length), header + length

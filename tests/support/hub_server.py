"""A small model hub for tests: the two kinds of answers that a hub client needs, with faults on demand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .server_thread import in_thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(ThreadingHTTPServer):
    """Serves the files of `folder` as the model `hub_id`.

    `cut` ends each weight file once after that many bytes.
    """

    daemon_threads = True

    def __init__(self, hub_id: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub_id = hub_id
        self.files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self.cut: int | None = None
        self.damaged = False
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def listing(self) -> bytes:
        siblings = []
        for name, content in self.files.items():
            row: dict[str, object] = {"rfilename": name, "size": len(content)}
            if name.endswith(".safetensors"):
                digest = hashlib.sha256(content).hexdigest()
                row["lfs"] = {"size": len(content), "sha256": digest, "pointerSize": 130}
            siblings.append(row)
        about = {"id": self.hub_id, "sha": COMMIT, "private": False, "disabled": False, "gated": False,
                 "downloads": 0, "likes": 0, "tags": [], "siblings": siblings}  # fmt: skip
        return json.dumps(about).encode()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == f"/api/models/{self.server.hub_id}":
            return self._send(200, self.server.listing(), "application/json")
        prefix = f"/{self.server.hub_id}/resolve/{COMMIT}/"
        name = path.removeprefix(prefix)
        if not path.startswith(prefix) or name not in self.server.files:
            return self._send(404, b'{"error": "Repository not found"}', "application/json")
        self.server.asked.append((name, self.headers.get("range")))
        content = self.server.files[name]
        if self.server.damaged and name.endswith(".safetensors"):
            content = content[:-1] + bytes([content[-1] ^ 1])
        start = int((self.headers.get("range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if self.server.cut is not None and name.endswith(".safetensors"):
            self.send_response(206 if start else 200)
            self.send_header("content-length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start : start + self.server.cut])
            self.server.cut = None
            self.close_connection = True
            return
        self._send(206 if start else 200, content[start:], "application/octet-stream")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def hub_server(hub_id: str, folder: Path) -> Iterator[HubServer]:
    with in_thread(HubServer(hub_id, folder)) as server:
        yield server
